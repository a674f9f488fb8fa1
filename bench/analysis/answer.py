"""What comparisons answer: on which models a backend is faster than PyTorch, and what its steps save.

Facts alone; `bench.report.content.answer` makes sentences of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.analysis.breakdown import UNNAMED, Breakdown, explain_difference
from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.steadiness.products import is_held_back_by_mkl
from bench.statistics.intervals import Amount, Speedup, verdict
from bench.statistics.summary import PYTORCH, BackendSummary, work_of

FASTER, SAME, SLOWER, INCONCLUSIVE = "faster", "same", "slower", "inconclusive"

VERDICTS = (FASTER, SAME, SLOWER, INCONCLUSIVE)  # what an interval over launches can say

ONE_LAUNCH = "one launch"
"""In place of a verdict: there is a ratio, but launches differ by more than its interval shows."""

NO_SPEEDUP = "no speed-up"
"""In place of a verdict: the backend ran, but something forbids the comparison; the table says what."""

CHOICES = ("engine", "optimizer", "sharding", "attention", "stack")  # what makes one PyTorch another


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one backend on one model."""

    model: str  # in the words that tell it from the other models
    verdict: str  # of `VERDICTS`; `ONE_LAUNCH`, `NO_SPEEDUP`, or the status of what failed
    speedup: Speedup | None = None  # None where there is no number
    memory: float | None = None  # peak memory over the reference's; None where it is not known

    @property
    def failed(self) -> bool:
        """Whether there is no number at all."""
        return self.verdict not in (*VERDICTS, ONE_LAUNCH)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A kind of work that differs for sure between a backend's step and the reference's."""

    kind: str
    amount: Amount  # seconds per step; below 0 the backend saves time
    share: float  # `amount` over the reference's timed step


@dataclass(frozen=True, kw_only=True)
class Why:
    """What the profiled steps say about the difference of the timed ones."""

    models: tuple[str, ...]  # those whose profile explains the difference, at least in part
    # models in which more is left over than any kind of work differs by, or whose profiled step is too far
    # from the timed one
    unexplained: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()  # of the models in `models`
    optimizer: str = ""  # what the backend updates the weights with, if that is not what the reference has
    # whether PyTorch's matrix products are slow since MKL looks at the CPU's maker
    mkl_held_back: bool = False


@dataclass(frozen=True, kw_only=True)
class BackendAnswer:
    """One backend on all models of a setting."""

    backend: str
    over_reference: tuple[Outcome, ...] = ()  # one outcome for each model that it was tried on
    # over the best of several PyTorch backends, for the models that have several
    over_best: tuple[Outcome, ...] = ()
    full_path: tuple[Outcome, ...] = ()  # `over_reference` with MKL's full path
    full_path_over_best: tuple[Outcome, ...] = ()  # `over_best` with MKL's full path
    why: Why | None = None


@dataclass(frozen=True, kw_only=True)
class ModelsAnswer:
    """Everything that was found on one machine, with as many ranks and threads, over one reference."""

    setting: str  # machine and ranks in words
    reference: str  # the backend that speed-ups are over
    on_cpu: bool  # whether it ran on a CPU
    backends: tuple[BackendAnswer, ...]  # those that were asked about
    # models beside which no other PyTorch than the reference was measured
    only_one_pytorch: tuple[str, ...] = ()
    # models as installed in which PyTorch multiplies more slowly than ONNX Runtime, since MKL looks at the
    # CPU's maker
    held_back_by_mkl: tuple[str, ...] = ()
    reduced: tuple[str, ...] = ()  # models with fewer layers than published, or in miniature


@dataclass(frozen=True, kw_only=True)
class MeasuredModel:
    """A model's comparison, where its time goes if that is known, and whether it is a smaller model."""

    model: str
    results: ComparisonResults
    breakdowns: Sequence[Breakdown] = ()
    is_reduced: bool = False


def answer(
    setting: str,
    measured: Sequence[MeasuredModel],
    with_full_path: Sequence[MeasuredModel],
    backends: Sequence[str],
) -> ModelsAnswer:
    """What the comparisons of one setting say about these backends.

    Args:
        setting: in words.
        measured: with MKL as it is installed, or on a GPU: at most one of each model.
        with_full_path: with MKL's full path, at most one of each model; one of both lists is not empty.
        backends: the names, in the order of the answer.
    """
    first = [*measured, *with_full_path][0].results
    return ModelsAnswer(
        setting=setting,
        reference=first.reference,
        on_cpu=first.on_cpu,
        backends=tuple(
            BackendAnswer(
                backend=name,
                over_reference=_outcomes(measured, name, find_outcome),
                over_best=_outcomes(measured, name, find_outcome_over_best),
                full_path=_outcomes(with_full_path, name, find_outcome),
                full_path_over_best=_outcomes(with_full_path, name, find_outcome_over_best),
                why=_why(measured, name),
            )
            for name in backends
        ),
        only_one_pytorch=tuple(each.model for each in measured if not has_several_pytorch(each.results)),
        held_back_by_mkl=tuple(each.model for each in measured if is_held_back_by_mkl(each.results.rows)),
        reduced=tuple(dict.fromkeys(each.model for each in (*measured, *with_full_path) if each.is_reduced)),
    )


def find_outcome(model: str, results: ComparisonResults, backend: str) -> Outcome | None:
    """What became of a backend, over the reference; None if it was not tried."""
    summary, base = results.of(backend), results.base
    if summary is None or summary.is_reference:
        return None
    return _outcome(model, summary, summary.speedup, summary.verdict, base)


def find_outcome_over_best(model: str, results: ComparisonResults, backend: str) -> Outcome | None:
    """What became of a backend over the fastest PyTorch; None if it is that, or if only one was measured."""
    summary, best = results.of(backend), results.best_pytorch
    if summary is None or summary.is_best_pytorch or not has_several_pytorch(results):
        return None
    if best is not None and best.is_reference:
        return find_outcome(model, results, backend)
    margin = float(results.rows["margin"].iloc[0])
    word = verdict(summary.over_best, margin) if summary.over_best else None
    return _outcome(model, summary, summary.over_best, word, best)


def _outcome(
    model: str,
    summary: BackendSummary,
    speedup: Speedup | None,
    word: str | None,
    base: BackendSummary | None,
) -> Outcome:
    """A backend's outcome over `base`; without several launches there is no verdict, nor `inconclusive`."""
    if summary.status != "ok":
        return Outcome(model=model, verdict=summary.status)
    if speedup is None:
        return Outcome(model=model, verdict=NO_SPEEDUP)
    peak, base_peak = summary.peak_mib, base.peak_mib if base else None
    return Outcome(
        model=model,
        verdict=ONE_LAUNCH if speedup.launches < 2 else word or INCONCLUSIVE,
        speedup=speedup,
        memory=peak / base_peak if peak and base_peak else None,
    )


def has_several_pytorch(results: ComparisonResults) -> bool:
    """Whether the fastest PyTorch is one of several: the only one is no best.

    A backend that makes the same choices as another is not another one, nor is one in a loop of somebody's
    that is timed for its own sake, or one that makes another update or rounds otherwise.
    """
    may_be_best = (
        summary
        for summary in results.summaries
        if summary.engine in PYTORCH and summary.status == "ok" and summary.loop in ("", "bare")
        if work_of(summary) == work_of(results.summaries[0])
    )
    return len({tuple(getattr(summary, choice) for choice in CHOICES) for summary in may_be_best}) > 1


def _outcomes(
    measured: Sequence[MeasuredModel],
    backend: str,
    find: Callable[[str, ComparisonResults, str], Outcome | None],
) -> tuple[Outcome, ...]:
    return tuple(filter(None, (find(each.model, each.results, backend) for each in measured)))


def _why(measured: Sequence[MeasuredModel], backend: str) -> Why | None:
    """What the profiled models say; None if none was profiled."""
    models: list[str] = []
    unexplained: list[str] = []
    effects: list[Effect] = []
    optimizers: list[str] = []
    for each in measured:
        results, breakdowns = each.results, {known.backend: known for known in each.breakdowns}
        ours, base = breakdowns.get(backend), breakdowns.get(results.reference)
        summary, reference = results.of(backend), results.base
        if ours is None or base is None or ours is base or summary is None or reference is None:
            continue
        difference = explain_difference(ours, base)
        if difference is None or base.timed_s is None or summary.speedup is None:
            continue
        if difference.is_doubtful:
            unexplained.append(each.model)
            continue
        models.append(each.model)
        optimizers += [summary.optimizer] * (summary.optimizer != reference.optimizer)
        effects += [
            Effect(kind=kind, amount=amount, share=amount.value / base.timed_s)
            for kind, amount in difference.kinds
            if amount.is_clear and kind not in UNNAMED
        ]
    if not models and not unexplained:
        return None
    return Why(
        models=tuple(models),
        unexplained=tuple(unexplained),
        effects=tuple(effects),
        optimizer="/".join(dict.fromkeys(optimizers)),
        mkl_held_back=any(is_held_back_by_mkl(each.results.rows) for each in measured),
    )
