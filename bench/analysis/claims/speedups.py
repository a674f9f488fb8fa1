"""Tests of claims about speed: within a comparison, and across two files that differ in one thing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations

from bench.analysis.claims.evidence import (
    Checkpointing,
    ChoiceSwapped,
    ClaimAnswer,
    ColumnChanged,
    OverBestPyTorch,
    OverReference,
    less_memory,
)
from bench.analysis.comparison_results import ComparisonResults
from bench.statistics import intervals
from bench.statistics.comparability import CHOICES
from bench.statistics.intervals import Speedup
from bench.statistics.summary import PYTORCH, BackendSummary
from bench.statistics.table_values import distinct_text
from bench.statistics.throughput import log_throughput, stopped_by_width

CHECKPOINTED = (0.7, 0.9)
"""Throughput with gradient checkpointing over that without, which the guide says is "about 20 %" lower."""

EQUAL_COLUMNS = (
    *("model", "size", "task", "data", "lengths", "global_batch", "seq_len", "precision"),
    *("attention", "grad_accum", "checkpointing", "device", "memory_limit_gib"),
)
"""What two comparisons must have in common, but for the one thing that a claim is about."""

TF32 = (1.0, 3.0)
"""Throughput with TF32 over that without, which the guide calls "up to 3x"."""

MULTIPLE = 8
"""A batch of a multiple of so many samples is faster per sample, as the guide says."""

Comparisons = Sequence[ComparisonResults]

ClaimTest = Callable[[Comparisons], Iterable[ClaimAnswer]]
"""Finds the comparisons that test a claim, and their answers."""

Swap = Callable[[str, str], bool]
"""Whether a claim is about the first value of a choice becoming the second."""

Suits = Callable[[ComparisonResults, BackendSummary], bool]
"""Whether a backend of a comparison is what a claim speaks of."""


def _at_equal_batch(comparisons: Comparisons) -> list[ComparisonResults]:
    return [each for each in comparisons if not each.uncontrolled and not each.at_largest]


def _at_least(speedup: Speedup, least: float) -> bool | None:
    """Whether the whole interval is at least this; None if a part of it is, or if it is not known."""
    if speedup.low is None or speedup.high is None or speedup.launches < 2:
        return None
    if speedup.low >= least:
        return True
    return False if speedup.high < least else None


def _within(ratio: Speedup, low: float, high: float) -> bool | None:
    """Whether the interval lies within these bounds; None if it lies partly outside, or is not known."""
    if ratio.low is None or ratio.high is None:
        return None
    if low <= ratio.low and ratio.high <= high:
        return True
    return False if ratio.high < low or high < ratio.low else None


def _not(holds: bool | None) -> bool | None:
    return None if holds is None else not holds


# Within a comparison


def speedup_at_least(backend: str, least: float) -> ClaimTest:
    """Is `backend` so many times as fast as pytorch, and if ONNX Runtime runs it, as the fastest PyTorch?"""

    def test(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
        for comparison in _at_equal_batch(comparisons):
            summary = comparison.of(backend)
            if comparison.reference != "pytorch" or summary is None or summary.speedup is None:
                continue
            kinds: list[tuple[type[OverReference | OverBestPyTorch], Speedup | None]]
            kinds = [(OverReference, summary.speedup), (OverBestPyTorch, summary.over_best)]
            for kind, speedup in kinds[: 1 if summary.engine in PYTORCH else 2]:
                if speedup:
                    holds = _at_least(speedup, least)
                    yield kind(holds=holds, comparison=comparison, backend=summary, speedup=speedup)

    return test


def swap(before: str, after: str) -> Swap:
    """The choice goes from one value to another."""
    return lambda old, new: (old, new) == (before, after)


def pairs_differing_in(
    comparison: ComparisonResults, choice: str, is_swapped: Swap
) -> Iterator[tuple[BackendSummary, BackendSummary]]:
    """The backends of a comparison that differ in one choice alone."""
    others = {*CHOICES} - {choice}
    for first, second in permutations(comparison.summaries, 2):
        same = all(getattr(first, other) == getattr(second, other) for other in others)
        if same and is_swapped(getattr(first, choice), getattr(second, choice)):
            yield first, second


def faster_with(choice: str, is_swapped: Swap, *, suits: Suits | None = None) -> ClaimTest:
    """Is a backend faster with this choice swapped alone, its stack and all else the same?"""
    return lambda comparisons: _swapped(comparisons, choice, is_swapped, suits)


def _swapped(
    comparisons: Comparisons, choice: str, is_swapped: Swap, suits: Suits | None = None
) -> Iterator[ChoiceSwapped]:
    for comparison in _at_equal_batch(comparisons):
        for old, new in pairs_differing_in(comparison, choice, is_swapped):
            # what must not be compared with the reference must not with anything
            comparable = all(side.is_reference or side.speedup for side in (old, new))
            if not comparable or (suits and not suits(comparison, old)):
                continue
            if speedup := comparison.speedup_between(new.backend, old.backend):
                yield ChoiceSwapped(
                    holds=_at_least(speedup, 1.0),
                    comparison=comparison,
                    before=old.backend,
                    after=new.backend,
                    speedup=speedup,
                )


def steps_by_parameter(comparison: ComparisonResults, backend: BackendSummary) -> bool:
    """Whether torch's AdamW stepped parameter by parameter, which it does by itself on a CPU alone.

    Rows of before that was recorded say nothing; on a CPU they were of the loop.
    """
    rows = comparison.rows[comparison.rows["backend"] == backend.backend]
    recorded = distinct_text(rows, "optimizer_implementation")
    return recorded == "for-loop" or (not recorded and distinct_text(rows, "device") == "cpu")


def fuses_adamw(old: str, new: str) -> bool:
    """Whether fused AdamW replaces the loop over parameters, as which `adamw`, too, steps on a CPU."""
    return old in ("adamw", "adamw_forloop") and new == "adamw_fused"


def improves_loader(old: str, new: str) -> bool:
    """Whether more workers prepare batches, or they wait in pinned memory: one of the two, not both."""
    if "" in (old, new):
        return False
    before, after = (dict(part.split("=") for part in text.split()) for text in (old, new))
    changed = [key for key in {*before, *after} if before.get(key) != after.get(key)]
    if changed == ["workers"]:
        return int(before["workers"]) < int(after["workers"])
    return changed == ["pinned_memory"] and after["pinned_memory"] == "true"


def zero1_slower_on_one_rank(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """ZeRO-1 on one rank has nothing to share; the claim is that it only costs."""
    for answer in speedup_at_least("pytorch_zero1", 1.0)(comparisons):
        if set(answer.comparison.rows["world_size"].dropna()) == {1}:
            yield replace(answer, holds=_not(answer.holds))


def tf32_up_to_3_times(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """TF32 makes training faster, and not more than three times: training stands for its matrix products."""
    for answer in _swapped(comparisons, "precision", swap("fp32", "tf32")):
        yield replace(answer, holds=_within(answer.speedup, *TF32))


# Across files


def _files_that_differ(
    comparisons: Comparisons, column: str, is_swapped: Swap
) -> Iterator[tuple[tuple[str, ComparisonResults], tuple[str, ComparisonResults]]]:
    """Two files whose references differ in `column` alone, from one value to the other, with these values."""
    groups: dict[tuple[object, ...], list[tuple[str, ComparisonResults]]] = {}
    for comparison in _at_equal_batch(comparisons):
        rows = comparison.rows[comparison.rows["backend"] == comparison.reference]
        key = {name: distinct_text(rows, name) for name in EQUAL_COLUMNS}
        value = key.pop(column)
        group = (*key.values(), comparison.hardware_key, comparison.reference)
        groups.setdefault(group, []).append((value, comparison))
    for members in groups.values():
        for first, second in permutations(members, 2):
            if first[0] != second[0] and is_swapped(first[0], second[0]):
                yield first, second


def _reference_ratio(base: ComparisonResults, new: ComparisonResults) -> Speedup | None:
    """The reference backend's throughput in one file over that in another."""
    sides = [log_throughput(side.rows, side.reference) for side in (base, new)]
    return intervals.speedup_across_runs(*sides, stopped_by_width=stopped_by_width(base.rows, new.rows))


def _slower_across_files(comparisons: Comparisons, column: str, is_slower: Swap) -> Iterator[ClaimAnswer]:
    """Is the reference backend slower, in two files that differ in `column` alone?

    `is_slower` says whether the claim is that the first value is the slower of two.
    """
    for (value, comparison), (other_value, other) in _files_that_differ(comparisons, column, is_slower):
        if ratio := _reference_ratio(other, comparison):
            yield ColumnChanged(
                holds=_not(_at_least(ratio, 1.0)),
                comparison=comparison,
                other=other,
                column=column,
                value=value,
                other_value=other_value,
                ratio=ratio,
            )


def _accumulates_more(old: str, new: str) -> bool:
    return "" not in (old, new) and int(old) < int(new)


def accumulation_slower(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """At the same global batch, more accumulation with smaller micro-batches is slower."""
    for answer in _swapped(comparisons, "grad_accum", _accumulates_more):
        yield replace(answer, holds=_not(answer.holds))
    yield from _slower_across_files(comparisons, "grad_accum", lambda old, new: _accumulates_more(new, old))


def torch_attention_faster(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """Torch's own attention is faster than eager attention, within a comparison or between two."""
    yield from _swapped(comparisons, "attention", swap("eager", "sdpa"))
    yield from _slower_across_files(comparisons, "attention", swap("eager", "sdpa"))


def multiples_of_8_faster(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """A batch of a multiple of 8 samples trains more of them per second than one of a sample more or less."""

    def beside_a_multiple(samples: str, others: str) -> bool:
        near = abs(int(samples) - int(others)) == 1
        return near and int(samples) % MULTIPLE != 0 and int(others) % MULTIPLE == 0

    yield from _slower_across_files(comparisons, "global_batch", beside_a_multiple)


def checkpointing(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """Recomputing activations makes training slower by a tenth to three tenths, and saves memory."""
    for answer in _swapped(comparisons, "checkpointing", swap("0", "1")):
        yield replace(answer, holds=_within(answer.speedup, *CHECKPOINTED))
        sides = (answer.comparison.of(answer.before), answer.comparison.of(answer.after))
        peaks = [answer.comparison.peak_mib(side) if side else None for side in sides]
        yield from less_memory(answer.comparison, *peaks)
    for (_, without), (_, with_it) in _files_that_differ(comparisons, "checkpointing", swap("0", "1")):
        ratio = _reference_ratio(without, with_it)
        before, after = (side.of(side.reference) for side in (without, with_it))
        if ratio and before and after:
            holds = _within(ratio, *CHECKPOINTED)
            yield Checkpointing(holds=holds, comparison=with_it, without=without, ratio=ratio)
            yield from less_memory(with_it, without.peak_mib(before), with_it.peak_mib(after))
