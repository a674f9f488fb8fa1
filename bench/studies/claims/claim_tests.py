"""How each published claim is tested: the comparisons that speak of it, and what they answer."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from math import inf, nextafter

from bench.analysis.comparison_results import SAME_PEAK
from bench.config.choices import IN_16_BITS_ALONE, SIXTEEN_BITS
from bench.report.content.backend_columns import what_runs
from bench.report.content.collection import ReportedComparison
from bench.report.words import describe
from bench.report.words.formatting import number, ratio_and_interval
from bench.results import arithmetic
from bench.results.prediction import FP32_BYTES
from bench.statistics.comparability import CHOICES
from bench.statistics.intervals import Speedup
from bench.statistics.summary import PYTORCH, BackendSummary

BLOG_LOWEST = 1.39
"""39 % to 130 % more throughput: the blog of January 2023 on ONNX Runtime with ZeRO-1."""

CHECKPOINTED = (0.7, 0.9)
"""Throughput with gradient checkpointing over that without, which the guide says is "about 20 %" lower."""

TF32 = (1.0, 3.0)  # throughput with TF32 over that without, which the guide calls "up to 3x"

STATE_TOLERANCE = 0.02
"""By how much, as a share, bytes of optimizer state per parameter may differ from what a claim says."""

LOW_BIT_TOLERANCE = 0.1
"""The tolerance, as `STATE_TOLERANCE`, of claims without the blocks' scales, or that say "little more"."""

IN_BOTH_FORMATS = 1.5  # bytes of weights in 16 and in 32 bits over those in 32 bits alone


@dataclass(frozen=True, kw_only=True)
class ClaimAnswer:
    """One comparison's answer to a claim."""

    holds: bool | None  # whether the claim holds there; None if the interval allows either
    comparison: ReportedComparison  # the one that answers
    words: str  # the numbers behind the answer, after the comparison's name


Comparisons = Sequence[ReportedComparison]

ClaimTest = Callable[[Comparisons], Iterable[ClaimAnswer]]
"""Function that finds the comparisons that test a claim, and their answers."""

Swap = Callable[[str, str], bool]  # whether a claim is about the first value of a choice becoming the second

Bounds = tuple[float, float]  # between which ratios a claim holds

FASTER, SLOWER = (1.0, inf), (0.0, nextafter(1.0, 0.0))


def _where(comparison: ReportedComparison) -> str:
    return f"on {describe.hardware(comparison.rows)}"


def _at_equal_batch(comparisons: Comparisons) -> list[ReportedComparison]:
    return [each for each in comparisons if not each.uncontrolled and not each.at_largest]


def _within(bounds: Bounds, speedup: Speedup) -> bool | None:
    """Whether the interval lies within these bounds; None if it lies partly outside, or is not known."""
    low, high = bounds
    if speedup.low is None or speedup.high is None or speedup.launches < 2:
        return None
    if low <= speedup.low and speedup.high <= high:
        return True
    return False if speedup.high < low or high < speedup.low else None


def against_pytorch(backend: str, bounds: Bounds, comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """Is `backend` within the bounds over pytorch and, if ONNX Runtime runs it, over the fastest PyTorch?"""
    for comparison in _at_equal_batch(comparisons):
        summary, best = comparison.of(backend), comparison.best_pytorch
        if comparison.reference != "pytorch" or summary is None or summary.speedup is None:
            continue
        runs = f"{backend} ({what_runs(summary)}) {ratio_and_interval(summary.speedup)}"
        words = f"{runs} over {comparison.reference} {_where(comparison)}"
        yield ClaimAnswer(holds=_within(bounds, summary.speedup), comparison=comparison, words=words)
        if best and summary.over_best and summary.engine not in PYTORCH:
            speed = f"{backend} {ratio_and_interval(summary.over_best)}"
            words = f"{speed} over {best.backend}, the best PyTorch there"
            yield ClaimAnswer(holds=_within(bounds, summary.over_best), comparison=comparison, words=words)


def swap(before: str, after: str) -> Swap:
    """The choice goes from one value to another."""
    return lambda old, new: (old, new) == (before, after)


def pairs_differing_in(
    comparison: ReportedComparison, choice: str, is_swapped: Swap
) -> Iterator[tuple[BackendSummary, BackendSummary]]:
    """The backends of a comparison that differ in one choice alone."""
    others = {*CHOICES} - {choice}
    for first, second in permutations(comparison.summaries, 2):
        same = all(getattr(first, other) == getattr(second, other) for other in others)
        if same and is_swapped(getattr(first, choice), getattr(second, choice)):
            yield first, second


def swapped(
    choice: str, is_swapped: Swap, bounds: Bounds, comparisons: Comparisons, *, saves_memory: bool = False
) -> Iterator[ClaimAnswer]:
    """Is a backend within the bounds, and its peak smaller if that is claimed, with one choice swapped?"""
    for comparison in _at_equal_batch(comparisons):
        for old, new in pairs_differing_in(comparison, choice, is_swapped):
            # a backend that must not be compared with the reference must not be compared with any other
            comparable = all(side.is_reference or side.speedup for side in (old, new))
            if not comparable or (choice == "optimizer" and not _steps_by_parameter(comparison, old)):
                continue
            if speedup := comparison.speedup_between(new.backend, old.backend):
                over = f"over {old.backend} {_where(comparison)}"
                words = f"{new.backend} {ratio_and_interval(speedup)} {over}"
                yield ClaimAnswer(holds=_within(bounds, speedup), comparison=comparison, words=words)
                if saves_memory:
                    yield from _less_memory(comparison, old, new)


def _steps_by_parameter(comparison: ReportedComparison, backend: BackendSummary) -> bool:
    """Whether torch's AdamW stepped parameter by parameter, which it does by itself on a CPU alone.

    Rows older than that column do not say; on a CPU they used the loop.
    """
    recorded = backend.optimizer_implementation
    return recorded == "for-loop" or (not recorded and comparison.on_cpu)


def fuses_adamw(old: str, new: str) -> bool:
    """Whether fused AdamW replaces the loop over parameters, as which `adamw`, too, steps on a CPU."""
    return old in ("adamw", "adamw_forloop") and new == "adamw_fused"


def accumulates_more(old: str, new: str) -> bool:
    """Whether a global batch is divided into more micro-batches, which are smaller."""
    return "" not in (old, new) and int(old) < int(new)


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
    """ZeRO-1 on one rank has nothing to divide: the claim is that it only costs time."""
    alone = [each for each in comparisons if set(each.rows["world_size"].dropna()) == {1}]
    yield from against_pytorch("pytorch_zero1", SLOWER, alone)


# Memory


def larger_batch(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """ORT's largest micro-batch against PyTorch's; a lead within the search's resolution does not count."""
    for comparison in comparisons:
        if comparison.uncontrolled or not comparison.at_largest:
            continue
        sides = map(comparison.of, ("pytorch", "ortmodule"))
        pytorch, ortmodule = (side and side.micro_batch for side in sides)
        if not pytorch or not ortmodule:
            continue
        close = 0 < ortmodule - pytorch <= arithmetic.search_resolution(pytorch)
        words = (
            f"the largest micro-batch is {ortmodule} with ortmodule and {pytorch} with pytorch"
            f"{', no further apart than the search tells' if close else ''}, {_where(comparison)}; "
            f"{describe.largest_batch_rule(comparison.rows)}"
        )
        holds = None if close else ortmodule > pytorch
        yield ClaimAnswer(holds=holds, comparison=comparison, words=words)


def state_bytes(
    backend: str, bytes_per_parameter: float, tolerance: float, comparisons: Comparisons
) -> Iterator[ClaimAnswer]:
    """Does the backend hold this number of bytes of optimizer state for each trained parameter?"""
    for comparison in comparisons:
        summary, parameters = comparison.of(backend), comparison.rows["trainable_parameters"].dropna()
        size = summary.optimizer_state_bytes if summary else None
        if comparison.uncontrolled or size is None or parameters.empty:
            continue
        each = size / int(parameters.max())
        close = abs(each / bytes_per_parameter - 1) <= tolerance
        words = f"{backend} holds {each:.2f} bytes per trained parameter"
        yield ClaimAnswer(holds=close, comparison=comparison, words=words)


def state_is_shared(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """ZeRO-1's state per rank against DDP's, for backends that differ in the sharding alone.

    Also where threads or allocator were left alone: they change speed, and the latter peaks, but no state.
    """
    for comparison in comparisons:
        ranks = int(comparison.rows["world_size"].max())
        for whole, shared in pairs_differing_in(comparison, "sharding", swap("ddp", "zero1")):
            whole_bytes, shared_bytes = whole.optimizer_state_bytes, shared.optimizer_state_bytes
            if ranks < 2 or whole_bytes is None or shared_bytes is None:
                continue
            share = shared_bytes / (whole_bytes or 1)
            words = (
                f"{shared.backend} holds {share:.3f} of {whole.backend}'s optimizer state on each of "
                f"{ranks} ranks"
            )
            holds = abs(share * ranks - 1) <= STATE_TOLERANCE
            yield ClaimAnswer(holds=holds, comparison=comparison, words=words)
            if not comparison.at_largest:  # there each fills the memory it may use
                yield from _less_memory(comparison, whole, shared)


def weights_kept_twice(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """In mixed precision, 1.5 times the bytes of weights in fp32, where nothing is divided among ranks."""
    for comparison in comparisons:
        parameters, ranks = (comparison.rows[column].dropna() for column in ("parameters", "world_size"))
        for mixed in comparison.summaries:
            whole = mixed.sharding == "ddp" or (mixed.sharding in IN_16_BITS_ALONE and set(ranks) == {1})
            if comparison.uncontrolled or mixed.precision not in SIXTEEN_BITS or not whole:
                continue
            size = comparison.rows.loc[comparison.rows["backend"] == mixed.backend, "weights_bytes"].dropna()
            if size.empty:
                continue
            each = float(size.max()) / float(parameters.max())
            holds = abs(each / FP32_BYTES / IN_BOTH_FORMATS - 1) <= STATE_TOLERANCE
            words = f"in {mixed.precision} {mixed.backend} holds {each:.2f} bytes of weights per parameter"
            yield ClaimAnswer(holds=holds, comparison=comparison, words=words)


def _less_memory(
    comparison: ReportedComparison, before: BackendSummary, after: BackendSummary
) -> Iterator[ClaimAnswer]:
    old, new = before.peak_mib, after.peak_mib
    if old is not None and new is not None:
        words = f"its peak memory goes from {number(old)} to {number(new)} MiB"
        holds = None if abs(new / old - 1) <= SAME_PEAK else new < old
        yield ClaimAnswer(holds=holds, comparison=comparison, words=words)


TESTS: dict[str, ClaimTest] = {
    "ort-standalone": partial(against_pytorch, "ortmodule", FASTER),
    "ort-zero1": partial(against_pytorch, "ortmodule_zero1", (BLOG_LOWEST, inf)),
    "ort-1.5x": partial(against_pytorch, "ortmodule", (1.5, inf)),
    "ort-max-batch": larger_batch,
    "fused-adam": partial(swapped, "optimizer", fuses_adamw, FASTER),
    "zero1-memory": state_is_shared,
    "zero1-not-for-small": zero1_slower_on_one_rank,
    "accumulation-slows": partial(swapped, "grad_accum", accumulates_more, SLOWER, saves_memory=True),
    "checkpointing-20": partial(swapped, "checkpointing", swap("0", "1"), CHECKPOINTED, saves_memory=True),
    "fp16-memory": weights_kept_twice,
    "tf32-3x": partial(swapped, "precision", swap("fp32", "tf32"), TF32),
    "adamw-8-bytes": partial(state_bytes, "pytorch", 8, STATE_TOLERANCE),
    "adafactor-4-bytes": partial(state_bytes, "pytorch_adafactor", 4, LOW_BIT_TOLERANCE),
    "adam8bit-2-bytes": partial(state_bytes, "pytorch_8bit", 2, LOW_BIT_TOLERANCE),
    "dataloader": partial(swapped, "loader", improves_loader, FASTER),
    "torch-compile": partial(swapped, "engine", swap("eager", "compile"), FASTER),
    "sdpa": partial(swapped, "attention", swap("eager", "sdpa"), FASTER, saves_memory=True),
}
