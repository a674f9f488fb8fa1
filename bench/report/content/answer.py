"""The answer in sentences: is ONNX Runtime faster than PyTorch here, why, and what to do about it.

A sentence claims no more than the intervals do: `faster` is a verdict of the analysis, and a range of ratios
is one of estimates whose intervals stand in the table.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from bench.analysis.answer import (
    FASTER,
    INCONCLUSIVE,
    ONE_LAUNCH,
    SAME,
    SLOWER,
    BackendAnswer,
    ModelsAnswer,
    Outcome,
)
from bench.report.content.answer_reasons import because, what_to_do
from bench.report.content.blocks import Bold, Inline, plain
from bench.report.words.formatting import (
    MOST_NAMED,
    TIMES,
    as_sentence,
    enumerated,
    plural,
    ratio_range,
    short_ratio,
)

QUESTION = "Does training become faster with ONNX Runtime?"

SUBJECTS = {"ortmodule": "ONNX Runtime", "ortmodule_zero1": "ONNX Runtime with ZeRO-1"}
"""What a backend is called in a sentence; any other has its own name."""

OVER = ("over PyTorch", "over its best", "over PyTorch with MKL's full path", "over its best with that path")
"""The columns of a table of answers."""

_WORDS = {FASTER: "faster", SAME: "the same", SLOWER: "slower", INCONCLUSIVE: "inconclusive"}


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """How fast one backend is."""

    subject: str  # what the backend is called
    begin: str  # what stands before the clauses; the whole sentence if there are none
    # over each PyTorch of `OVER`, on how many models and with which ratios; empty where that was not measured
    clauses: Sequence[Sequence[Inline]] = ()
    peaks: str = ""  # its peak memory over that of PyTorch; empty if none is known

    @property
    def memory(self) -> str:
        """A clause of its own about peak memory."""
        return f"its peak memory is {self.peaks} times that of PyTorch" if self.peaks else ""

    @property
    def text(self) -> str:
        """The whole sentence."""
        if not self.clauses:
            return self.begin
        memory = f"; {self.memory}" if self.memory else ""
        return f"{self.begin} {enumerated([*map(plain, filter(None, self.clauses))], ', and ')}{memory}."


@dataclass(frozen=True, kw_only=True)
class AnswerWords:
    """The answer of one setting."""

    setting: str  # machine and ranks
    reduced: str  # how many of the models are cut; empty if none is
    # how fast each backend is, over what, on how many models; why and to_do are about the first
    sentences: Sequence[Sentence]
    why: str  # what the profiled steps say; empty if nothing was profiled
    to_do: str  # what follows from the table, by three rules; empty if none applies

    @property
    def short(self) -> str:
        """The first sentence."""
        return self.sentences[0].text


def put_in_words(answer: ModelsAnswer) -> AnswerWords:
    """The sentences that are true of an answer."""
    backends = [(SUBJECTS.get(each.backend, each.backend), each) for each in answer.backends]
    sentences = [_sentence(subject, backend, answer) for subject, backend in backends]
    return AnswerWords(
        setting=answer.setting,
        reduced=_reduced(answer),
        sentences=[sentence for sentence in sentences if sentence],
        why=next((because(subject, backend.why) for subject, backend in backends if backend.why), ""),
        to_do=what_to_do(answer, backends[0][0]),
    )


# How fast


def _sentence(subject: str, backend: BackendAnswer, answer: ModelsAnswer) -> Sentence | None:
    """On how many models a backend is faster, over each PyTorch that it was measured beside; None without."""
    name = "PyTorch" if answer.reference == "pytorch" else answer.reference
    pytorches = (
        (f"{name} as installed" if answer.on_cpu else name, backend.over_reference),
        ("the best PyTorch measured beside it", backend.over_best),
        (f"{name} with MKL's full path", backend.full_path),
        ("the best PyTorch with that path", backend.full_path_over_best),
    )
    conditions = [(than, outcomes) for than, outcomes in pytorches if outcomes]
    if not conditions:
        return None
    every = [outcome for _, outcomes in conditions for outcome in outcomes]
    than, outcomes = conditions[0]
    if all(outcome.failed for outcome in every):
        return Sentence(subject=subject, begin=f"{subject} has no result: {_one_by_one(outcomes)}.")
    if not any(outcome.verdict in _WORDS for outcome in every):
        unknown = f"Nobody knows yet whether {subject} is faster than {than}"
        unknown += f", since one launch alone has no verdict: {_one_by_one(outcomes)}."
        return Sentence(subject=subject, begin=unknown)
    clauses: list[list[Inline]] = []
    for than, outcomes in pytorches:
        faster = sum(outcome.verdict == FASTER for outcome in outcomes)
        models = len(outcomes) if any(clauses) else plural(len(outcomes), "model")
        details = _one_by_one(outcomes) if len(outcomes) == 1 else _by_verdict(outcomes)
        clause: list[Inline] = [f"than {than} on ", Bold(f"{faster} of {models}"), f" ({details})"]
        clauses.append(clause if outcomes else [])
    peaks = [outcome.memory for outcome in backend.over_reference if outcome.memory is not None]
    memory = ratio_range(peaks) if peaks else ""
    return Sentence(subject=subject, begin=f"{subject} is faster", clauses=clauses, peaks=memory)


def _by_verdict(outcomes: Sequence[Outcome]) -> str:
    """How many of several models are faster, slower, undecided, at which ratios."""
    parts = []
    for verdict, words in (*_WORDS.items(), (ONE_LAUNCH, "from one launch, so without a verdict")):
        ratios = [each.speedup.ratio for each in outcomes if each.verdict == verdict and each.speedup]
        if ratios:
            begin = "at" if verdict == FASTER else f"{len(ratios)} {words}:"
            parts.append(f"{begin} {ratio_range(ratios)}{TIMES}")
    failed = Counter(outcome.verdict for outcome in outcomes if outcome.failed)
    return "; ".join([*parts, *(f"{count} {status}" for status, count in failed.items())])


def _one_by_one(outcomes: Sequence[Outcome]) -> str:
    """Each model with its ratio, the fastest first, then those that have none; many only by their number."""
    if len(outcomes) > MOST_NAMED:
        return _by_verdict(outcomes)
    parts = []
    for outcome in sorted(outcomes, key=lambda each: -each.speedup.ratio if each.speedup else inf):
        words = _WORDS.get(outcome.verdict, outcome.verdict)
        ratio = f"{short_ratio(outcome.speedup.ratio)}{TIMES}, " if outcome.speedup else ""
        parts.append(f"{outcome.model} {ratio}{words}")
    return "; ".join(parts)


def _reduced(answer: ModelsAnswer) -> str:
    """A warning that not all results are of published models."""
    if not answer.reduced:
        return ""
    outcomes = [(*backend.over_reference, *backend.full_path) for backend in answer.backends]
    every = {outcome.model for of_backend in outcomes for outcome in of_backend}
    rows = plural(len(every), "row")
    return (
        f"not the published model in {len(answer.reduced)} of {rows}: fewer layers, a miniature, or changed"
    )


# One comparison


def sentence_of_comparison(reference: str, outcomes: Sequence[tuple[str, Outcome]]) -> str:
    """The answer of one comparison about each backend: `Faster than pytorch: ortmodule 1.25× […]; …`."""
    than = f"than {reference}"
    kinds = (
        (FASTER, f"faster {than}"),
        (SAME, f"as fast as {reference}"),
        (SLOWER, f"slower {than}"),
        (INCONCLUSIVE, f"inconclusive against {reference}"),
        (ONE_LAUNCH, f"without a verdict against {reference}, since there was one launch"),
    )
    parts = []
    for verdict, words in kinds:
        backends = [
            f"{name} {short_ratio(outcome.speedup.ratio)}{TIMES} {outcome.speedup.interval}"
            for name, outcome in outcomes
            if outcome.verdict == verdict and outcome.speedup
        ]
        parts += [f"{words}: {', '.join(backends)}"] * bool(backends)
    failed = [f"{name} ({outcome.verdict})" for name, outcome in outcomes if outcome.failed]
    parts += [f"without a result: {', '.join(failed)}"] * bool(failed)
    sentence = "; ".join(parts) or f"nothing was compared with {reference}"
    return as_sentence(sentence)
