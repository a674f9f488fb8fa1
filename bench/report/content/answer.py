"""The answer in sentences: is ONNX Runtime faster than PyTorch here, why, and what to do about it.

A sentence claims no more than the intervals do: `faster` is a verdict of the analysis, and a range of ratios
is one of estimates whose intervals stand in the table.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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
from bench.report.content.answer_advice import advise
from bench.report.content.answer_causes import because
from bench.report.content.answer_numbers import MOST_NAMED, number, number_range, ratio_range
from bench.report.words.formatting import TIMES, interval, plural

QUESTION = "Does training become faster with ONNX Runtime?"

SUBJECTS = {"ortmodule": "ONNX Runtime", "ortmodule_zero1": "ONNX Runtime with ZeRO-1"}
"""What a backend is called in a sentence; any other has its own name."""

_WORDS = {FASTER: "faster", SAME: "the same", SLOWER: "slower", INCONCLUSIVE: "inconclusive"}


@dataclass(frozen=True, kw_only=True)
class Clause:
    """Over one PyTorch: than which, on how many models, and what became of all of them."""

    than: str
    count: str
    details: str


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """What is said of one backend.

    Attributes:
        begin: what stands before the clauses; the whole sentence if there are none.
        clauses: a page shows each on a line of its own, and their counts in bold.
        memory: a clause of its own about peak memory; empty if none is known.
    """

    begin: str
    clauses: Sequence[Clause] = ()
    memory: str = ""

    @property
    def text(self) -> str:
        """The whole sentence."""
        said = [f"than {one.than} on {one.count} ({one.details})" for one in self.clauses]
        memory = f"; {self.memory}" if self.memory else ""
        return f"{self.begin} {series(said)}{memory}." if said else self.begin


@dataclass(frozen=True, kw_only=True)
class AnswerWords:
    """The answer of one setting.

    Attributes:
        setting: machine and ranks.
        reduced: how many of the models are cut; empty if none is.
        sentences: how fast each backend is, over what, on how many models; why and to_do are of the first.
        why: what the profiled steps say; empty if nothing was profiled.
        to_do: what follows from it.
    """

    setting: str
    reduced: str
    sentences: Sequence[Sentence]
    why: str
    to_do: str

    @property
    def short(self) -> str:
        """The first sentence."""
        return self.sentences[0].text


def put_in_words(found: ModelsAnswer) -> AnswerWords:
    """The sentences that are true of what was found."""
    why = next((because(subject_of(one.backend), one.why) for one in found.backends if one.why), "")
    return AnswerWords(
        setting=found.setting,
        reduced=_reduced(found),
        sentences=[sentence_about(one, found) for one in found.backends if _conditions(one, found)],
        why=why,
        to_do=advise(found, subject_of(found.backends[0].backend)),
    )


def subject_of(backend: str) -> str:
    """What a backend is called in a sentence."""
    return SUBJECTS.get(backend, backend)


# How fast


def sentence_about(one: BackendAnswer, found: ModelsAnswer) -> Sentence:
    """On how many models a backend is faster, over each PyTorch that it was measured beside."""
    conditions = _conditions(one, found)
    subject = subject_of(one.backend)
    every = [outcome for _, outcomes in conditions for outcome in outcomes]
    than, outcomes = conditions[0]
    if all(outcome.failed for outcome in every):
        return Sentence(begin=f"{subject} has no result: {one_by_one(outcomes)}.")
    if not any(outcome.verdict in _WORDS for outcome in every):
        unknown = f"Nobody knows yet whether {subject} is faster than {than}"
        return Sentence(begin=f"{unknown}, since one launch alone has no verdict: {one_by_one(outcomes)}.")
    return Sentence(
        begin=f"{subject} is faster",
        clauses=[
            Clause(than=than, count=count_faster(outcomes, noun=not number), details=details(outcomes))
            for number, (than, outcomes) in enumerate(conditions)
        ],
        memory=_memory(one),
    )


def _conditions(one: BackendAnswer, found: ModelsAnswer) -> list[tuple[str, tuple[Outcome, ...]]]:
    """Over what a backend was measured, in words, and what became of it there."""
    name = "PyTorch" if found.reference == "pytorch" else found.reference
    conditions = (
        (f"{name} as installed" if found.on_cpu else name, one.over_reference),
        ("the best PyTorch measured beside it", one.over_best),
        (f"{name} with MKL's full path", one.full_path),
        ("the best PyTorch with that path", one.full_path_over_best),
    )
    return [(than, outcomes) for than, outcomes in conditions if outcomes]


def count_faster(outcomes: Sequence[Outcome], *, noun: bool) -> str:
    """`1 of 2 models`, or `1 of 2` where `noun` is false."""
    faster = sum(outcome.verdict == FASTER for outcome in outcomes)
    return f"{faster} of {plural(len(outcomes), 'model') if noun else len(outcomes)}"


def details(outcomes: Sequence[Outcome]) -> str:
    """Of a single model its figure; of several how many are faster, slower, undecided, at which ratios."""
    if len(outcomes) == 1:
        return one_by_one(outcomes)
    parts = []
    for verdict, words in _WORDS.items():
        mine = [outcome for outcome in outcomes if outcome.verdict == verdict]
        if mine:
            what = "at" if verdict == FASTER else f"{len(mine)} {words}:"
            parts.append(f"{what} {ratio_range(mine)}")
    alone = [outcome for outcome in outcomes if outcome.verdict == ONE_LAUNCH]
    if alone:
        parts.append(f"{len(alone)} from one launch, so without a verdict: {ratio_range(alone)}")
    failed = Counter(outcome.verdict for outcome in outcomes if outcome.failed)
    parts += [f"{count} {status}" for status, count in failed.items()]
    return "; ".join(parts)


def one_by_one(outcomes: Sequence[Outcome]) -> str:
    """Each model with its ratio, the fastest first, then those that have none; many only by their number."""
    if len(outcomes) > MOST_NAMED:
        return details(outcomes)
    ordered = sorted(
        outcomes, key=lambda one: (one.speedup is None, -one.speedup.ratio if one.speedup else 0)
    )
    parts = []
    for outcome in ordered:
        words = _WORDS.get(outcome.verdict, outcome.verdict)
        figure = "" if outcome.speedup is None else f"{number(outcome.speedup.ratio)}{TIMES}, "
        parts.append(f"{outcome.model} {figure}{words}")
    return "; ".join(parts)


def _memory(one: BackendAnswer) -> str:
    known = [outcome.memory for outcome in one.over_reference if outcome.memory is not None]
    return f"its peak memory is {number_range(known)} times that of PyTorch" if known else ""


def _reduced(found: ModelsAnswer) -> str:
    """That a result is not one of published models, before anybody takes it for that."""
    if not found.reduced:
        return ""
    every = {outcome.model for one in found.backends for outcome in (*one.over_reference, *one.full_path)}
    models = plural(len(every), "model")
    return f"{len(found.reduced)} of {models} cut: fewer layers than published, or a miniature"


def series(clauses: Sequence[str]) -> str:
    """`one, two, and three`."""
    *first, last = clauses or [""]
    return f"{', '.join(first)}, and {last}" if first else last


# One comparison


def sentence_of_comparison(reference: str, outcomes: Sequence[tuple[str, Outcome]]) -> str:
    """The answer of one comparison: `faster than pytorch: ortmodule 1.25× […]; slower: …`.

    Args:
        reference: its name.
        outcomes: each other backend's name, and what became of it.
    """
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
        mine = [
            f"{name} {number(outcome.speedup.ratio)}{TIMES} {interval(outcome.speedup)}".strip()
            for name, outcome in outcomes
            if outcome.verdict == verdict and outcome.speedup
        ]
        parts += [f"{words}: {', '.join(mine)}"] * bool(mine)
    failed = [f"{name} ({outcome.verdict})" for name, outcome in outcomes if outcome.failed]
    parts += [f"without a result: {', '.join(failed)}"] * bool(failed)
    sentence = "; ".join(parts) or f"nothing was compared with {reference}"
    return f"{sentence[0].upper()}{sentence[1:]}."
