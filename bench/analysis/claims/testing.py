"""How each published claim is tested on comparisons: a function for each claim's id."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations

from bench.analysis.claims.evidence import (
    Checkpointing,
    ChoiceSwapped,
    ClaimAnswer,
    ColumnChanged,
    LargestBatches,
    OverBestPyTorch,
    OverReference,
    PeakMemory,
    StateBytes,
    StateShared,
    WeightBytes,
)
from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.reference import BLOG_BAND
from bench.config.choices import IN_16_BITS_ALONE, SIXTEEN_BITS
from bench.results import arithmetic
from bench.results.prediction import FP32_BYTES
from bench.statistics import intervals
from bench.statistics.comparability import CHOICES
from bench.statistics.intervals import Speedup
from bench.statistics.summary import PYTORCH, BackendSummary
from bench.statistics.table_values import distinct_text
from bench.statistics.throughput import log_throughput, stopped_by_width

STATE_TOLERANCE = 0.02
"""By how much, as a share, bytes of optimizer state per parameter may differ from what a claim says."""

LOW_BIT_TOLERANCE = 0.1
"""The same of claims that leave out the scales of blocks, or say "little more"."""

CHECKPOINTED = (0.7, 0.9)
"""Throughput with gradient checkpointing over that without, which the guide says is "about 20 %" lower."""

EQUAL_COLUMNS = (
    *("model", "size", "task", "data", "lengths", "global_batch", "seq_len", "precision"),
    *("attention", "grad_accum", "checkpointing", "device", "memory_limit_gib"),
)
"""What two comparisons must have in common, but for the one thing that a claim is about."""

TF32 = (1.0, 3.0)
"""Throughput with TF32 over that without, which the guide calls "up to 3x"."""

IN_BOTH_FORMATS = 1.5
"""Bytes of weights in 16 and in 32 bits over those in 32 bits alone."""

MULTIPLE = 8
"""Of samples in a batch: the guide says that these are faster per sample."""

Comparisons = Sequence[ComparisonResults]

Test = Callable[[Comparisons], Iterable[ClaimAnswer]]
"""The answers of comparisons."""


def _at_equal_batch(comparisons: Comparisons) -> list[ComparisonResults]:
    return [each for each in comparisons if not each.uncontrolled and not each.at_largest]


# Speed-ups within a comparison


def _at_least(speedup: Speedup, least: float) -> bool | None:
    """Whether the whole interval is at least this; None if a part of it is, or if it is not known."""
    if speedup.low is None or speedup.high is None or speedup.launches < 2:
        return None
    if speedup.low >= least:
        return True
    return False if speedup.high < least else None


def _not(holds: bool | None) -> bool | None:
    return None if holds is None else not holds


def _over_pytorch(
    comparisons: Comparisons, backend: str
) -> Iterable[tuple[ComparisonResults, OverReference]]:
    """The speed-up of a backend in each comparison at equal batch whose reference is pytorch."""
    for comparison in _at_equal_batch(comparisons):
        summary = comparison.of(backend)
        if comparison.reference == "pytorch" and summary and summary.speedup:
            yield comparison, OverReference(backend=summary, speedup=summary.speedup)


def _speedup_at_least(backend: str, least: float) -> Test:
    """Is `backend` so many times as fast as pytorch, and if ONNX Runtime runs it, as the fastest PyTorch?"""

    def test(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
        for comparison, evidence in _over_pytorch(comparisons, backend):
            both: list[OverReference | OverBestPyTorch] = [evidence]
            if evidence.backend.over_best and evidence.backend.engine not in PYTORCH:
                both.append(OverBestPyTorch(backend=evidence.backend, speedup=evidence.backend.over_best))
            for one in both:
                yield ClaimAnswer(holds=_at_least(one.speedup, least), comparison=comparison, evidence=one)

    return test


def _faster(backend: str) -> Test:
    return _speedup_at_least(backend, 1.0)


Swap = Callable[[str, str], bool]
"""Whether a claim is about the first value of a choice becoming the second."""


def _swap(before: str, after: str) -> Swap:
    return lambda old, new: (old, new) == (before, after)


def _pairs_differing_in(
    comparison: ComparisonResults, choice: str, is_swapped: Swap
) -> Iterable[tuple[BackendSummary, BackendSummary]]:
    """The backends of a comparison that differ in one choice alone."""
    choices = {*CHOICES} - {choice}
    for first in comparison.summaries:
        for second in comparison.summaries:
            same = all(getattr(first, other) == getattr(second, other) for other in choices)
            if same and is_swapped(getattr(first, choice), getattr(second, choice)):
                yield first, second


Suits = Callable[[ComparisonResults, BackendSummary], bool]
"""Whether a backend of a comparison is what a claim speaks of."""


def _faster_with(choice: str, is_swapped: Swap, *, suits: Suits = lambda _comparison, _before: True) -> Test:
    """Is a backend faster with this choice swapped alone, its stack and all else the same?"""

    def test(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
        for comparison in _at_equal_batch(comparisons):
            for old, new in _pairs_differing_in(comparison, choice, is_swapped):
                if not suits(comparison, old):
                    continue
                if not all(side.is_reference or side.speedup for side in (old, new)):
                    continue  # what must not be compared with the reference must not with anything
                speedup = comparison.speedup_between(new.backend, old.backend)
                if speedup is None:
                    continue
                evidence = ChoiceSwapped(before=old.backend, after=new.backend, speedup=speedup)
                yield ClaimAnswer(holds=_at_least(speedup, 1.0), comparison=comparison, evidence=evidence)

    return test


def _steps_by_parameter(comparison: ComparisonResults, backend: BackendSummary) -> bool:
    """Whether torch's AdamW stepped parameter by parameter, which it does by itself on a CPU alone.

    Rows of before that was recorded say nothing; on a CPU they were of the loop.
    """
    rows = comparison.rows[comparison.rows["backend"] == backend.backend]
    recorded = distinct_text(rows, "optimizer_implementation")
    return recorded == "for-loop" or (not recorded and distinct_text(rows, "device") == "cpu")


def _fuses_adamw(old: str, new: str) -> bool:
    """Whether fused AdamW replaces the loop over parameters, as which `adamw`, too, steps on a CPU."""
    return old in ("adamw", "adamw_forloop") and new == "adamw_fused"


def _improves_loader(old: str, new: str) -> bool:
    """Whether more workers prepare batches, or they wait in pinned memory: one of the two, not both."""
    if "" in (old, new):
        return False
    before, after = (dict(part.split("=") for part in text.split()) for text in (old, new))
    changed = [key for key in {*before, *after} if before.get(key) != after.get(key)]
    if changed == ["workers"]:
        return int(before["workers"]) < int(after["workers"])
    return changed == ["pinned_memory"] and after["pinned_memory"] == "true"


def _zero1_slower_on_one_rank(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """ZeRO-1 on one rank has nothing to share; the claim is that it only costs."""
    for comparison, evidence in _over_pytorch(comparisons, "pytorch_zero1"):
        if set(comparison.rows["world_size"].dropna()) == {1}:
            holds = _not(_at_least(evidence.speedup, 1.0))
            yield ClaimAnswer(holds=holds, comparison=comparison, evidence=evidence)


# Across files


def _files_that_differ(
    comparisons: Comparisons, column: str, values: tuple[str, str] | None = None
) -> Iterable[tuple[ComparisonResults, ComparisonResults]]:
    """Two files whose references differ in `column` alone, in both orders; with `values`, in this one."""
    groups: dict[tuple[object, ...], list[tuple[str, ComparisonResults]]] = {}
    for comparison in _at_equal_batch(comparisons):
        mine = comparison.rows[comparison.rows["backend"] == comparison.reference]
        key = {name: distinct_text(mine, name) for name in EQUAL_COLUMNS}
        value = key.pop(column)
        group = (*key.values(), comparison.hardware_key, comparison.reference)
        groups.setdefault(group, []).append((value, comparison))
    for members in groups.values():
        for (value, comparison), (other_value, other) in permutations(members, 2):
            if value != other_value and (values is None or (value, other_value) == values):
                yield comparison, other


def _of_reference(comparison: ComparisonResults, column: str) -> str:
    """What a column says of the reference backend; another may have it otherwise."""
    return distinct_text(comparison.rows[comparison.rows["backend"] == comparison.reference], column)


def _reference_ratio(base: ComparisonResults, new: ComparisonResults) -> Speedup | None:
    """The reference backend's throughput in one file over that in another."""
    sides = [log_throughput(side.rows, side.reference) for side in (base, new)]
    return intervals.speedup_across_runs(*sides, stopped_by_width=stopped_by_width(base.rows, new.rows))


def _slower_across_files(
    comparisons: Comparisons, column: str, is_slower: Callable[[str, str], bool]
) -> Iterator[ClaimAnswer]:
    """Is the reference backend slower, in two files that differ in `column` alone?

    Args:
        comparisons: all results.
        column: the one of `EQUAL_COLUMNS` that differs.
        is_slower: whether the claim is that the first value is the slower of two.
    """
    for comparison, other in _files_that_differ(comparisons, column):
        value, other_value = (_of_reference(side, column) for side in (comparison, other))
        ratio = _reference_ratio(other, comparison) if is_slower(value, other_value) else None
        if ratio is None:
            continue
        evidence = ColumnChanged(
            other=other, column=column, value=value, other_value=other_value, ratio=ratio
        )
        yield ClaimAnswer(holds=_not(_at_least(ratio, 1.0)), comparison=comparison, evidence=evidence)


def _accumulates_more(old: str, new: str) -> bool:
    return "" not in (old, new) and int(old) < int(new)


def _accumulation_slower(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """At the same global batch, more accumulation with smaller micro-batches is slower."""
    for answer in _faster_with("grad_accum", _accumulates_more)(comparisons):
        yield replace(answer, holds=_not(answer.holds))
    yield from _slower_across_files(
        comparisons, "grad_accum", lambda one, other: _accumulates_more(other, one)
    )


def _torch_attention_faster(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """Torch's own attention is faster than eager attention, within a comparison or between two."""
    yield from _faster_with("attention", _swap("eager", "sdpa"))(comparisons)
    yield from _slower_across_files(comparisons, "attention", _swap("eager", "sdpa"))


def _tf32_up_to_3_times(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """TF32 makes training faster, and not more than three times: training stands for its matrix products."""
    for answer in _faster_with("precision", _swap("fp32", "tf32"))(comparisons):
        assert isinstance(answer.evidence, ChoiceSwapped)
        yield replace(answer, holds=_within(answer.evidence.speedup, *TF32))


def _multiples_of_8_faster(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """A batch of a multiple of 8 samples trains more of them per second than one of a sample more or less."""

    def beside_a_multiple(one: str, other: str) -> bool:
        near = abs(int(one) - int(other)) == 1
        return near and int(one) % MULTIPLE != 0 and int(other) % MULTIPLE == 0

    yield from _slower_across_files(comparisons, "global_batch", beside_a_multiple)


def _checkpointing(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """Recomputing activations makes training slower by a tenth to three tenths, and saves memory."""
    for answer in _faster_with("checkpointing", _swap("0", "1"))(comparisons):
        assert isinstance(answer.evidence, ChoiceSwapped)
        swapped = answer.evidence
        yield replace(answer, holds=_within(swapped.speedup, *CHECKPOINTED))
        sides = (answer.comparison.of(swapped.before), answer.comparison.of(swapped.after))
        peaks = [answer.comparison.peak_mib(side) if side else None for side in sides]
        yield from _less_memory(answer.comparison, *peaks)
    for without, with_it in _files_that_differ(comparisons, "checkpointing", ("0", "1")):
        ratio = _reference_ratio(without, with_it)
        before, after = (side.of(side.reference) for side in (without, with_it))
        if ratio is None or before is None or after is None:
            continue
        evidence = Checkpointing(without=without, ratio=ratio)
        yield ClaimAnswer(holds=_within(ratio, *CHECKPOINTED), comparison=with_it, evidence=evidence)
        yield from _less_memory(with_it, without.peak_mib(before), with_it.peak_mib(after))


def _within(ratio: Speedup, low: float, high: float) -> bool | None:
    """Whether the interval lies within these bounds; None if it lies partly outside, or is not known."""
    if ratio.low is None or ratio.high is None:
        return None
    if low <= ratio.low and ratio.high <= high:
        return True
    return False if ratio.high < low or high < ratio.low else None


# Memory


def _less_memory(
    comparison: ComparisonResults, before: float | None, after: float | None
) -> Iterator[ClaimAnswer]:
    """Whether the peak, in MiB, became smaller; no answer where one is not known."""
    if before is None or after is None:
        return
    evidence = PeakMemory(before_mib=before, after_mib=after)
    yield ClaimAnswer(holds=after < before, comparison=comparison, evidence=evidence)


def _larger_batch(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """ORT's largest micro-batch against PyTorch's; a lead within the search's resolution is none."""
    for comparison in comparisons:
        if comparison.uncontrolled or not comparison.at_largest:
            continue
        pytorch, ortmodule = (
            side and side.micro_batch for side in (comparison.of("pytorch"), comparison.of("ortmodule"))
        )
        if not pytorch or not ortmodule:
            continue
        close = 0 < ortmodule - pytorch <= arithmetic.search_resolution(pytorch)
        evidence = LargestBatches(pytorch=pytorch, ortmodule=ortmodule, distinguishable=not close)
        holds = None if close else ortmodule > pytorch
        yield ClaimAnswer(holds=holds, comparison=comparison, evidence=evidence)


def _state_bytes(backend: str, bytes_per_parameter: float, tolerance: float = STATE_TOLERANCE) -> Test:
    """Does the backend hold so many bytes of optimizer state for each trained parameter?"""

    def test(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
        for comparison in comparisons:
            summary, parameters = comparison.of(backend), comparison.rows["trainable_parameters"].dropna()
            size = summary.optimizer_state_bytes if summary else None
            if comparison.uncontrolled or size is None or parameters.empty:
                continue
            measured_bytes = arithmetic.ratio(size, int(parameters.max()))
            close = abs(arithmetic.ratio(measured_bytes, bytes_per_parameter) - 1) <= tolerance
            evidence = StateBytes(backend=backend, bytes_per_parameter=measured_bytes)
            yield ClaimAnswer(holds=close, comparison=comparison, evidence=evidence)

    return test


def _state_is_shared(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """ZeRO-1's state per rank against DDP's, for backends that differ in the sharding alone.

    Also where threads or allocator were left alone: they change speed, and the latter peaks, but no state.
    """
    for comparison in comparisons:
        ranks = int(comparison.rows["world_size"].dropna().max())
        for whole, shared in _pairs_differing_in(comparison, "sharding", _swap("ddp", "zero1")):
            whole_bytes, shared_bytes = whole.optimizer_state_bytes, shared.optimizer_state_bytes
            if ranks < 2 or whole_bytes is None or shared_bytes is None:
                continue
            share = arithmetic.ratio(float(shared_bytes), float(whole_bytes or 1))
            evidence = StateShared(whole=whole.backend, shared=shared.backend, share=share, ranks=ranks)
            close = abs(share * ranks - 1) <= STATE_TOLERANCE
            yield ClaimAnswer(holds=close, comparison=comparison, evidence=evidence)
            if not comparison.at_largest:  # there each fills what it may
                peaks = (comparison.peak_mib(side) for side in (whole, shared))
                yield from _less_memory(comparison, *peaks)


def _weights_kept_twice(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """In mixed precision, 1.5 times the bytes of weights in fp32, where nothing is divided among ranks."""
    for comparison in comparisons:
        parameters, ranks = (comparison.rows[column].dropna() for column in ("parameters", "world_size"))
        for mixed in comparison.summaries:
            whole = mixed.sharding == "ddp" or (mixed.sharding in IN_16_BITS_ALONE and set(ranks) == {1})
            rows = comparison.rows[comparison.rows["backend"] == mixed.backend]
            size = rows["weights_bytes"].dropna()
            if comparison.uncontrolled or mixed.precision not in SIXTEEN_BITS or not whole or size.empty:
                continue
            each = arithmetic.ratio(float(size.max()), float(parameters.max()))
            close = abs(each / FP32_BYTES / IN_BOTH_FORMATS - 1) <= STATE_TOLERANCE
            evidence = WeightBytes(backend=mixed.backend, precision=mixed.precision, bytes_per_parameter=each)
            yield ClaimAnswer(holds=close, comparison=comparison, evidence=evidence)


TESTS: dict[str, Test] = {
    "ort-standalone": _faster("ortmodule"),
    "ort-zero1": _speedup_at_least("ortmodule_zero1", BLOG_BAND[0]),
    "ort-1.5x": _speedup_at_least("ortmodule", 1.5),
    "ort-max-batch": _larger_batch,
    "fused-adam": _faster_with("optimizer", _fuses_adamw, suits=_steps_by_parameter),
    "zero1-memory": _state_is_shared,
    "zero1-not-for-small": _zero1_slower_on_one_rank,
    "accumulation-slows": _accumulation_slower,
    "checkpointing-20": _checkpointing,
    "fp16-memory": _weights_kept_twice,
    "tf32-3x": _tf32_up_to_3_times,
    "adamw-8-bytes": _state_bytes("pytorch", 8),
    "adafactor-4-bytes": _state_bytes("pytorch_adafactor", 4, LOW_BIT_TOLERANCE),
    "adam8bit-2-bytes": _state_bytes("pytorch_8bit", 2, LOW_BIT_TOLERANCE),
    "dataloader": _faster_with("loader", _improves_loader),
    "torch-compile": _faster_with("engine", _swap("eager", "compile")),
    "sdpa": _torch_attention_faster,
    "batch-multiple-8": _multiples_of_8_faster,
}
"""By the claim's id."""
