"""What comparisons answer: on which models a backend is faster than PyTorch, and what its steps save.

Facts alone; `bench.report.content.answer` makes sentences of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.analysis.breakdown import UNNAMED, Breakdown, explain_difference
from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.products import is_held_back_by_mkl
from bench.results import arithmetic
from bench.statistics.intervals import Amount, Speedup, verdict
from bench.statistics.summary import PYTORCH, BackendSummary

FASTER, SAME, SLOWER, INCONCLUSIVE = "faster", "same", "slower", "inconclusive"

VERDICTS = (FASTER, SAME, SLOWER, INCONCLUSIVE)
"""What an interval over launches can say."""

ONE_LAUNCH = "one launch"
"""In place of a verdict: there is a ratio, but launches differ by more than its interval shows."""

NO_SPEEDUP = "no speed-up"
"""In place of a verdict: the backend ran, but something forbids the comparison; the table says what."""

CHOICES = ("engine", "optimizer", "sharding", "attention", "stack")
"""What makes one PyTorch another."""


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

    model: str
    kind: str
    amount: Amount  # seconds per step; below 0 the backend saves time
    share: float  # the same over the reference's timed step


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
    full_path: tuple[Outcome, ...] = ()  # as `over_reference`, with MKL's full path
    full_path_over_best: tuple[Outcome, ...] = ()  # as `over_best`, with MKL's full path
    why: Why | None = None


@dataclass(frozen=True, kw_only=True)
class BestPyTorch:
    """The fastest of several PyTorch backends on one model, where it is not the reference."""

    backend: str
    # those that the reference has otherwise, such as `("optimizer", "adamw_fused")`
    choices: tuple[tuple[str, str], ...]
    outcome: Outcome  # over the reference


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Everything that was found on one machine, with as many ranks and threads, over one reference."""

    setting: str  # machine and ranks in words
    reference: str  # the backend that speed-ups are over
    on_cpu: bool  # whether it ran on a CPU
    backends: tuple[BackendAnswer, ...]  # those that were asked about
    best: tuple[BestPyTorch, ...] = ()  # the best PyTorch of each model that has several PyTorch backends
    best_with_full_path: tuple[BestPyTorch, ...] = ()  # the same, with MKL's full path
    # models beside which no other PyTorch than the reference was measured
    only_one_pytorch: tuple[str, ...] = ()
    # models as installed in which PyTorch multiplies more slowly than ONNX Runtime, since MKL looks at the
    # CPU's maker
    held_back_by_mkl: tuple[str, ...] = ()
    reduced: tuple[str, ...] = ()  # models with fewer layers than published, or in miniature


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A model's comparison, where its time goes if that is known, and whether it is a smaller model."""

    model: str
    results: ComparisonResults
    breakdowns: Sequence[Breakdown] = ()
    is_reduced: bool = False


def answer(
    setting: str,
    measured: Sequence[Measured],
    with_full_path: Sequence[Measured],
    backends: Sequence[str],
) -> Answer:
    """What the comparisons of one setting say about these backends.

    Args:
        setting: in words.
        measured: with MKL as it is installed, or on a GPU: at most one of each model.
        with_full_path: with MKL's full path, likewise; one of both is not empty.
        backends: the names, in the order of the answer.
    """
    some = [*measured, *with_full_path][0].results
    return Answer(
        setting=setting,
        reference=some.reference,
        on_cpu=some.on_cpu,
        backends=tuple(
            BackendAnswer(
                backend=name,
                over_reference=_outcomes(measured, name),
                over_best=_outcomes(measured, name, find_outcome_over_best),
                full_path=_outcomes(with_full_path, name),
                full_path_over_best=_outcomes(with_full_path, name, find_outcome_over_best),
                why=_why(measured, name),
            )
            for name in backends
        ),
        best=tuple(best for one in measured if (best := _best(one))),
        best_with_full_path=tuple(best for one in with_full_path if (best := _best(one))),
        only_one_pytorch=tuple(one.model for one in measured if not has_several_pytorch(one.results)),
        held_back_by_mkl=tuple(one.model for one in measured if is_held_back_by_mkl(one.results.rows)),
        reduced=tuple(dict.fromkeys(one.model for one in (*measured, *with_full_path) if one.is_reduced)),
    )


def find_outcome(model: str, results: ComparisonResults, backend: str) -> Outcome | None:
    """What became of a backend, over the reference; None if it was not tried."""
    summary = results.of(backend)
    if summary is None or summary.is_reference:
        return None
    if summary.status != "ok":
        return Outcome(model=model, verdict=summary.status)
    if summary.speedup is None:
        return Outcome(model=model, verdict=NO_SPEEDUP)
    base = results.of(results.reference)
    return Outcome(
        model=model,
        verdict=_word(summary.speedup, summary.verdict),
        speedup=summary.speedup,
        memory=None if base is None else _over(results.peak_mib(summary), results.peak_mib(base)),
    )


def find_outcome_over_best(model: str, results: ComparisonResults, backend: str) -> Outcome | None:
    """What became of a backend over the fastest PyTorch; None if it is that, or if only one was measured."""
    summary = results.of(backend)
    if summary is None or summary.is_best_pytorch or not has_several_pytorch(results):
        return None
    best = _fastest_pytorch(results)
    if best is not None and best.is_reference:
        return find_outcome(model, results, backend)
    if summary.status != "ok":
        return Outcome(model=model, verdict=summary.status)
    if summary.over_best is None:
        return Outcome(model=model, verdict=NO_SPEEDUP)
    margin = float(results.rows["margin"].iloc[0])
    return Outcome(
        model=model,
        verdict=_word(summary.over_best, verdict(summary.over_best, margin)),
        speedup=summary.over_best,
        memory=None if best is None else _over(results.peak_mib(summary), results.peak_mib(best)),
    )


def has_several_pytorch(results: ComparisonResults) -> bool:
    """Whether the fastest PyTorch is one of several: the only one is no best.

    The same once more is not another one, nor is one in a loop of somebody's that is timed for its own sake.
    """
    return len({_choices(one) for one in results.summaries if _may_be_best(one)}) > 1


def _may_be_best(one: BackendSummary) -> bool:
    return one.engine in PYTORCH and one.status == "ok" and one.loop in ("", "bare")


def _choices(one: BackendSummary) -> tuple[str, ...]:
    return tuple(str(getattr(one, choice)) for choice in CHOICES)


def _fastest_pytorch(results: ComparisonResults) -> BackendSummary | None:
    return next((one for one in results.summaries if one.is_best_pytorch), None)


def _word(speedup: Speedup, verdict_of_analysis: str | None) -> str:
    """The verdict; without several launches there is none, and that is another thing than inconclusive."""
    return ONE_LAUNCH if speedup.launches < 2 else verdict_of_analysis or INCONCLUSIVE


def _over(value: float | None, base: float | None) -> float | None:
    return arithmetic.ratio(value, base) if value and base else None


def _outcomes(
    measured: Sequence[Measured],
    backend: str,
    find: Callable[[str, ComparisonResults, str], Outcome | None] = find_outcome,
) -> tuple[Outcome, ...]:
    found = (find(one.model, one.results, backend) for one in measured)
    return tuple(outcome for outcome in found if outcome)


def _best(one: Measured) -> BestPyTorch | None:
    results = one.results
    best, base = _fastest_pytorch(results), results.of(results.reference)
    if best is None or base is None or best.is_reference or not has_several_pytorch(results):
        return None
    outcome = find_outcome(one.model, results, best.backend)
    differing = zip(CHOICES, _choices(best), _choices(base), strict=True)
    return (
        None
        if outcome is None
        else BestPyTorch(
            backend=best.backend,
            choices=tuple((choice, mine) for choice, mine, theirs in differing if mine != theirs),
            outcome=outcome,
        )
    )


def _why(measured: Sequence[Measured], backend: str) -> Why | None:
    """What the profiled models say; None if none was profiled."""
    models: list[str] = []
    unexplained: list[str] = []
    effects: list[Effect] = []
    optimizers: list[str] = []
    for one in measured:
        known = {each.backend: each for each in one.breakdowns}
        mine, base = known.get(backend), known.get(one.results.reference)
        summary, reference = one.results.of(backend), one.results.of(one.results.reference)
        if mine is None or base is None or mine is base or summary is None or reference is None:
            continue
        difference = explain_difference(mine, base)
        if difference is None or base.timed_s is None or summary.speedup is None:
            continue
        if difference.is_doubtful:
            unexplained.append(one.model)
            continue
        models.append(one.model)
        optimizers += [summary.optimizer] * (summary.optimizer != reference.optimizer)
        effects += [
            Effect(model=one.model, kind=kind, amount=amount, share=amount.value / base.timed_s)
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
        mkl_held_back=any(is_held_back_by_mkl(one.results.rows) for one in measured),
    )
