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
    Answer,
    BackendAnswer,
    Outcome,
)
from bench.report.answer_advice import advise
from bench.report.answer_causes import because
from bench.report.answer_numbers import MOST_NAMED, number, number_range, ratio_range
from bench.report.formatting import TIMES, interval, plural

QUESTION = "Does training become faster with ONNX Runtime?"

SUBJECTS = {"ortmodule": "ONNX Runtime", "ortmodule_zero1": "ONNX Runtime with ZeRO-1"}
"""What a backend is called in a sentence; any other has its own name."""

_WORDS = {FASTER: "faster", SAME: "the same", SLOWER: "slower", INCONCLUSIVE: "inconclusive"}

@dataclass(frozen=True, kw_only=True)
class AnswerWords:
    """The answer of one setting.

    Attributes:
        setting: machine and ranks.
        sentences: how fast each backend is, over what, on how many models.
        why: what the profiled steps say; empty if nothing was profiled.
        to_do: what follows from it.
    """

    setting: str
    sentences: Sequence[str]
    why: str
    to_do: str


def put_in_words(found: Answer) -> AnswerWords:
    """The sentences that are true of what was found."""
    why = next((because(subject_of(one.backend), one.why) for one in found.backends if one.why), "")
    return AnswerWords(
        setting=found.setting,
        sentences=[sentence_about(one, found) for one in found.backends if _conditions(one, found)],
        why=why,
        to_do=advise(found, subject_of(found.backends[0].backend)),
    )


def subject_of(backend: str) -> str:
    """What a backend is called in a sentence."""
    return SUBJECTS.get(backend, backend)


# How fast


def sentence_about(one: BackendAnswer, found: Answer) -> str:
    """On how many models a backend is faster, over each PyTorch that it was measured beside."""
    conditions = _conditions(one, found)
    subject = subject_of(one.backend)
    every = [outcome for _, outcomes in conditions for outcome in outcomes]
    if all(outcome.failed for outcome in every):
        return f"{subject} has no result: {_one_by_one(conditions[0][1])}."
    if not any(outcome.verdict in _WORDS for outcome in every):
        than, outcomes = conditions[0]
        unknown = f"Nobody knows yet whether {subject} is faster than {than}"
        return f"{unknown}, since one launch alone has no verdict: {_details(outcomes)}."
    named = one is found.backends[0]
    clauses = [
        f"than {than} on {tally(outcomes, named=named, noun=not number)}"
        for number, (than, outcomes) in enumerate(conditions)
    ]
    return f"{subject} is faster {_series(clauses)}{_memory(one)}."


def _conditions(one: BackendAnswer, found: Answer) -> list[tuple[str, tuple[Outcome, ...]]]:
    """Over what a backend was measured, in words, and what became of it there."""
    name = "PyTorch" if found.reference == "pytorch" else found.reference
    conditions = (
        (f"{name} as installed" if found.on_cpu else name, one.over_reference),
        ("the best PyTorch measured beside it", one.over_best),
        (f"{name} with MKL's full path", one.full_path),
        ("the best PyTorch with that path", one.full_path_over_best),
    )
    return [(than, outcomes) for than, outcomes in conditions if outcomes]


def tally(outcomes: Sequence[Outcome], *, named: bool = True, noun: bool = True) -> str:
    """`1 of 2 models (…)`: on how many it is faster, and what became of each, or of how many.

    Args:
        outcomes: one for each model.
        named: whether a few models are named one by one.
        noun: whether it is said that these are models.
    """
    faster = sum(outcome.verdict == FASTER for outcome in outcomes)
    many = plural(len(outcomes), "model") if noun else len(outcomes)
    return f"{faster} of {many} ({_details(outcomes, named=named)})"


def _details(outcomes: Sequence[Outcome], *, named: bool = True) -> str:
    if named and len(outcomes) <= MOST_NAMED:
        return _one_by_one(outcomes)
    parts = []
    for verdict, words in _WORDS.items():
        mine = [outcome for outcome in outcomes if outcome.verdict == verdict]
        if mine:
            parts.append(ratio_range(mine) if verdict == FASTER else f"{words} on {len(mine)}: {ratio_range(mine)}")
    alone = [outcome for outcome in outcomes if outcome.verdict == ONE_LAUNCH]
    if alone:
        parts.append(f"one launch, so no verdict, on {len(alone)}: {ratio_range(alone)}")
    failed = Counter(outcome.verdict for outcome in outcomes if outcome.failed)
    parts += [f"{status} on {count}" for status, count in failed.items()]
    return "; ".join(parts)


def _one_by_one(outcomes: Sequence[Outcome]) -> str:
    """Each model with its ratio, the fastest first, then those that have none."""
    ordered = sorted(outcomes, key=lambda one: (one.speedup is None, -one.speedup.ratio if one.speedup else 0))
    parts = []
    for outcome in ordered:
        words = "" if outcome.verdict == FASTER else _WORDS.get(outcome.verdict, outcome.verdict)
        figure = "" if outcome.speedup is None else f" {number(outcome.speedup.ratio)}{TIMES}"
        parts.append(f"{outcome.model}{figure}{',' if figure and words else ''}{' ' if words else ''}{words}")
    return "; ".join(parts)


def _memory(one: BackendAnswer) -> str:
    known = sorted(outcome.memory for outcome in one.over_reference if outcome.memory is not None)
    if not known:
        return ""
    return f"; its peak memory is {number_range(known)} times that of PyTorch"


def _series(clauses: Sequence[str]) -> str:
    *first, last = clauses
    return f"{', '.join(first)}, and {last}" if first else last


# One comparison


def sentences_of_comparison(reference: str, outcomes: Sequence[tuple[str, Outcome]]) -> str:
    """The answer of one comparison: which backends are faster than its reference, which are not.

    Args:
        reference: its name.
        outcomes: each other backend's name, and what became of it.
    """
    parts = []
    for verdict, words in (*_WORDS.items(), (ONE_LAUNCH, "one launch, so no verdict")):
        mine = [
            f"{name} {number(outcome.speedup.ratio)}{TIMES} {interval(outcome.speedup)}"
            for name, outcome in outcomes
            if outcome.verdict == verdict and outcome.speedup
        ]
        parts += [f"{words}: {', '.join(mine)}"] * bool(mine)
    failed = [f"{name} {outcome.verdict}" for name, outcome in outcomes if outcome.failed]
    parts += [f"no result: {', '.join(failed)}"] * bool(failed)
    return f"over {reference} {'; '.join(parts)}." if parts else f"nothing was compared with {reference}."
