"""Every claim of bench/reference/claims.csv against what this project has measured."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

from bench.analysis import intervals, reference
from bench.analysis.comparability import CHOICES
from bench.analysis.intervals import Speedup
from bench.analysis.reference import BLOG_BAND, Claim
from bench.analysis.summary import BackendSummary
from bench.analysis.throughput import log_ratios, log_throughput, stopped_by_width
from bench.report import text
from bench.report.collection import Collection, Comparison
from bench.results import arithmetic

REPRODUCED, CONTRADICTED, PARTLY, UNTESTED = "reproduced", "contradicted", "partly", "not testable"

ON_CPU = "on a CPU"

STATE_TOLERANCE = 0.02
"""By how much, as a share, bytes of optimizer state per parameter may differ from what a claim says."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What our results say about a claim.

    Attributes:
        verdict: of `REPRODUCED`, `CONTRADICTED`, `PARTLY` and `UNTESTED`.
        where: on what kind of device; empty for an untested claim.
        evidence: one line per comparison, with its numbers; for an untested claim why it is.
        commands: that produced them.
    """

    claim: Claim
    verdict: str
    evidence: tuple[str, ...]
    commands: tuple[str, ...] = ()
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One comparison's answer: does the claim hold there?"""

    holds: bool | None  # None: the interval allows either
    words: str
    comparison: Comparison


Test = Callable[[Collection], list[Point] | str]
"""The points, or why there can be none."""


def check(collection: Collection) -> list[Finding]:
    """A finding for every claim, in the order of the file."""
    return [_finding(claim, TESTS[claim.id](collection)) for claim in reference.claims()]


def _finding(claim: Claim, found: list[Point] | str) -> Finding:
    if isinstance(found, str):
        return Finding(claim=claim, verdict=UNTESTED, evidence=(found,))
    words = tuple(point.words for point in found)
    commands = (point.comparison.command for point in found if point.comparison.command)
    where = _where(found)
    verdict, reason = _verdict(found), ""
    if not found:
        reason = f"no committed comparison tests it: {claim.how_to_test}"
    elif verdict == UNTESTED:
        reason = "the intervals allow either"
    elif where == ON_CPU and "proxy" in claim.testable_on:
        verdict, reason = UNTESTED, f"only {ON_CPU}, which is a proxy; there"
    return Finding(
        claim=claim,
        verdict=verdict,
        where="" if verdict == UNTESTED else where,
        evidence=((reason,) if reason else ()) + words,
        commands=tuple(dict.fromkeys(commands)),
    )


def _where(points: Sequence[Point]) -> str:
    """On what kind of device: a claim that was made of GPUs is tested on a CPU for what that is worth."""
    on_cpu = {point.comparison.on_cpu for point in points}
    return " and ".join(name for kind, name in ((True, ON_CPU), (False, "on GPUs")) if kind in on_cpu)


def _verdict(points: Sequence[Point]) -> str:
    """Of some comparisons that cannot tell and others: partly, if any of those shows the claim."""
    answers = {point.holds for point in points}
    if answers <= {None}:
        return UNTESTED
    if answers == {True}:
        return REPRODUCED
    return PARTLY if True in answers else CONTRADICTED


# Speed-ups


def _speedups(collection: Collection, backend: str, against: str, wanted: float) -> list[Point]:
    """Is `backend` at least `wanted` times as fast as `against`, where that is the reference?"""
    points = []
    for one in collection.at_equal:
        summary = one.of(backend)
        if one.reference == against and summary and summary.speedup:
            holds = _at_least(summary.speedup, wanted)
            points.append(_point(one, summary, holds))
    return points


def _at_least(speedup: Speedup, wanted: float) -> bool | None:
    if speedup.low is None or speedup.high is None:
        return None
    if speedup.low >= wanted:
        return True
    return False if speedup.high < wanted else None


def _point(one: Comparison, summary: BackendSummary, holds: bool | None) -> Point:
    speedup = summary.speedup
    assert speedup is not None
    words = (
        f"{one.stem}: {summary.backend} ({summary.engine} + {summary.optimizer} + {summary.sharding}) "
        f"{text.ratio(speedup.ratio)} {text.interval(speedup)} over {one.reference} on {one.hardware}"
    )
    return Point(holds=holds, words=words, comparison=one)


def _faster(backend: str, against: str = "pytorch") -> Test:
    return lambda collection: _speedups(collection, backend, against, 1.0)


def _beyond(backend: str, wanted: float) -> Test:
    return lambda collection: _speedups(collection, backend, "pytorch", wanted)


def _swapped(factor: str, before: str, after: str) -> Test:
    """Is a backend faster with this choice swapped alone, its stack and all else the same?"""

    def test(collection: Collection) -> list[Point]:
        points = []
        for one in collection.at_equal:
            for old, new in _pairs(one, factor, before, after):
                if not all(side.is_reference or side.speedup for side in (old, new)):
                    continue  # what must not be compared with the reference must not with anything
                logs = log_ratios(one.rows, new.backend, old.backend)
                ratio = intervals.speedup_of_rounds(logs, stopped=stopped_by_width(one.rows))
                if ratio is None:
                    continue
                words = (
                    f"{one.stem}: {new.backend} {text.ratio(ratio.ratio)} {text.interval(ratio)} over "
                    f"{old.backend} on {one.hardware}"
                )
                points.append(Point(holds=_at_least(ratio, 1.0), words=words, comparison=one))
        return points

    return test


def _not_for_small(collection: Collection) -> list[Point]:
    """ZeRO-1 on one rank has nothing to share; the claim is that it only costs."""
    points = []
    for one in collection.at_equal:
        summary = one.of("pytorch_zero1")
        alone = set(one.rows["world_size"].dropna()) == {1}
        if alone and one.reference == "pytorch" and summary and summary.speedup:
            faster = _at_least(summary.speedup, 1.0)
            points.append(_point(one, summary, None if faster is None else not faster))
    return points


# Across files


SAME = (
    *("model", "size", "task", "data", "lengths", "global_batch", "seq_len", "precision"),
    *("attention", "grad_accum", "checkpointing", "device", "memory_limit_gib"),
)
"""What two comparisons must have in common, but for the one thing that a claim is about."""


def _files_that_differ(
    collection: Collection, column: str, values: tuple[str, str] | None = None
) -> Iterable[tuple[Comparison, Comparison]]:
    """Two files that differ in `column` alone, in both orders; with `values` in these, in this order."""
    groups: dict[tuple[str, ...], list[tuple[str, Comparison]]] = {}
    for one in collection.controlled:
        found = {same: text.distinct(one.rows, same) for same in SAME}
        mine = found.pop(column)
        groups.setdefault((*found.values(), one.hardware, one.reference), []).append((mine, one))
    for group in groups.values():
        for (value, one), (other_value, other) in permutations(group, 2):
            if value != other_value and (values is None or (value, other_value) == values):
                yield one, other


def _across(base: Comparison, new: Comparison) -> Speedup | None:
    """The reference backend's throughput in one file over that in another."""
    sides = [log_throughput(side.rows, side.reference) for side in (base, new)]
    return intervals.speedup_across_runs(*sides, stopped=stopped_by_width(base.rows, new.rows))


def _across_files(collection: Collection, column: str, slower: Callable[[str, str], bool]) -> list[Point]:
    """Is the reference backend slower, in two files that differ in `column` alone, where `slower` says so?

    Args:
        collection: all results.
        column: the one of `SAME` that differs.
        slower: whether the claim is that the first value is the slower of two.
    """
    points = []
    for one, other in _files_that_differ(collection, column):
        value, other_value = (text.distinct(side.rows, column) for side in (one, other))
        ratio = _across(other, one) if slower(value, other_value) else None
        if ratio is None:
            continue
        faster = _at_least(ratio, 1.0)
        words = (
            f"{one.stem} against {other.stem}: {one.reference} with {column} {value} runs at "
            f"{text.ratio(ratio.ratio)} {text.interval(ratio)} of {other_value}, on {one.hardware}"
        )
        points.append(Point(holds=None if faster is None else not faster, words=words, comparison=one))
    return points


def _accumulation(collection: Collection) -> list[Point]:
    """At the same global batch, more accumulation with smaller micro-batches is slower."""
    return _across_files(collection, "grad_accum", lambda one, other: int(one) > int(other))


def _attention(collection: Collection) -> list[Point]:
    """Torch's own attention is faster than eager attention, within a comparison or between two."""
    return [
        *_swapped("attention", "eager", "sdpa")(collection),
        *_across_files(collection, "attention", lambda one, other: (one, other) == ("eager", "sdpa")),
    ]


# The largest batch


def _larger_batch(collection: Collection) -> list[Point]:
    """ORT's largest micro-batch against PyTorch's; a lead within the search's resolution is none."""
    points = []
    for one in collection.at_largest:
        sizes = [side and side.micro_batch for side in (one.of("pytorch"), one.of("ortmodule"))]
        torchs, orts = sizes
        if not torchs or not orts:
            continue
        close = 0 < orts - torchs <= arithmetic.search_resolution(torchs)
        words = (
            f"{one.stem}: the largest micro-batch is {orts} with ortmodule and {torchs} with pytorch"
            f"{', no further apart than the search tells' if close else ''}, on {one.panel}"
        )
        points.append(Point(holds=None if close else orts > torchs, words=words, comparison=one))
    return points


CHECKPOINTED = (0.7, 0.9)
"""Throughput with gradient checkpointing over that without, which the guide says is "about 20 %" lower."""


def _checkpointing(collection: Collection) -> list[Point]:
    """Recomputing activations makes training slower by a tenth to three tenths, and saves memory."""
    points = []
    for whole, saved in _files_that_differ(collection, "checkpointing", ("0", "1")):
        ratio = _across(whole, saved)
        before, after = (one.of(one.reference) for one in (whole, saved))
        if ratio is None or before is None or after is None:
            continue
        words = (
            f"{saved.stem} against {whole.stem}: {saved.reference} with checkpointing runs at "
            f"{text.ratio(ratio.ratio)} {text.interval(ratio)}, on {saved.hardware}"
        )
        points.append(Point(holds=_within(ratio, *CHECKPOINTED), words=words, comparison=saved))
        peaks = whole.peak_mib(before), saved.peak_mib(after)
        if peaks[0] is not None and peaks[1] is not None:
            numbers = " to ".join(map(text.number, peaks))
            words = f"{saved.stem}: its peak memory goes from {numbers} MiB"
            points.append(Point(holds=peaks[1] < peaks[0], words=words, comparison=saved))
    return points


def _within(found: Speedup, low: float, high: float) -> bool | None:
    """Whether the interval lies within these bounds; None if it lies partly outside, or is not known."""
    if found.low is None or found.high is None:
        return None
    if low <= found.low and found.high <= high:
        return True
    return False if found.high < low or high < found.low else None


# Optimizer state


def _state(backend: str, bytes_per_parameter: float) -> Test:
    def test(collection: Collection) -> list[Point]:
        points = []
        for one in collection.controlled:
            summary, parameters = one.of(backend), one.rows["trainable_parameters"].dropna()
            if summary is None or summary.optimizer_state_bytes is None or parameters.empty:
                continue
            found = arithmetic.ratio(summary.optimizer_state_bytes, int(parameters.max()))
            words = f"{one.stem}: {backend} holds {found:.2f} bytes per trained parameter"
            close = abs(arithmetic.ratio(found, bytes_per_parameter) - 1) <= STATE_TOLERANCE
            points.append(Point(holds=close, words=words, comparison=one))
        return points

    return test


def _state_is_shared(collection: Collection) -> list[Point]:
    """ZeRO-1's state per rank against DDP's, for backends that differ in the sharding alone.

    Also where threads or allocator were left alone: they change speed, and the latter peaks, but no state.
    """
    points = []
    for one in collection.comparisons:
        ranks = int(one.rows["world_size"].dropna().max())
        for whole, shared in _pairs(one, "sharding", "ddp", "zero1"):
            sizes = [side.optimizer_state_bytes for side in (whole, shared)]
            if ranks < 2 or None in sizes:
                continue
            ratio = arithmetic.ratio(float(sizes[1] or 0), float(sizes[0] or 1))
            close = abs(ratio * ranks - 1) <= STATE_TOLERANCE
            words = (
                f"{one.stem}: {shared.backend} holds {ratio:.3f} of {whole.backend}'s optimizer state on "
                f"each of {ranks} ranks"
            )
            points.append(Point(holds=close, words=words, comparison=one))
            before, after = (one.peak_mib(side) for side in (whole, shared))
            if before is not None and after is not None and not one.at_largest:  # each fills what it may
                words = (
                    f"{one.stem}: its peak memory goes from {text.number(before)} to {text.number(after)} MiB"
                )
                points.append(Point(holds=after < before, words=words, comparison=one))
    return points


def _pairs(
    one: Comparison, factor: str, before: str, after: str
) -> Iterable[tuple[BackendSummary, BackendSummary]]:
    """The backends of a comparison that differ in one choice alone."""
    factors = {*CHOICES} - {factor}
    for first in one.summaries:
        for second in one.summaries:
            same = all(getattr(first, other) == getattr(second, other) for other in factors)
            if same and (getattr(first, factor), getattr(second, factor)) == (before, after):
                yield first, second


def _never(reason: str) -> Test:
    return lambda _: reason


TESTS: dict[str, Test] = {
    "ort-standalone": _faster("ortmodule"),
    "ort-zero1": _beyond("ortmodule_zero1", BLOG_BAND[0]),
    "ort-1.5x": _beyond("ortmodule", 1.5),
    "ort-max-batch": _larger_batch,
    "fused-adam": _faster("pytorch_fused"),
    "zero1-memory": _state_is_shared,
    "zero1-not-for-small": _not_for_small,
    "accumulation-slows": _accumulation,
    "checkpointing-20": _checkpointing,
    "fp16-memory": _never("weights are kept once, in fp32 (autocast); the claim is of two copies"),
    "tf32-3x": _never("needs a GPU of the Ampere generation or later"),
    "adamw-8-bytes": _state("pytorch", 8),
    "adafactor-4-bytes": _never("Adafactor is no optimizer of the harness yet"),
    "adam8bit-2-bytes": _never("8-bit Adam is no optimizer of the harness yet"),
    "dataloader": _never("needs a dataset whose loader limits the run; data.workers sets them"),
    "torch-compile": _swapped("engine", "eager", "compile"),
    "sdpa": _attention,
    "batch-multiple-8": _never("needs a GPU"),
}
"""By the claim's id."""
