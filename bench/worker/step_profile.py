"""Takes a few untimed steps under torch's profiler: which operator had the rank's main thread, and how long.

Every moment of a step is counted once. An operator has the time in which it ran itself, without what it
called. Where ONNX Runtime ran, its own profile says which of its kernels did. Where the main thread ran no
operator at all, it either waited for other ranks, which the threads of the communication library show, or
was in Python and the framework.
"""

import bisect
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from bench.results.operator_kinds import HOST, WAITING, Operator, ProfiledRound
from bench.worker.engine_kernel import EngineKernel
from bench.worker.heap_room import HeapRoom

SETTLING_SECONDS = 0.05
"""After a step, for other threads to write the end of their events."""

STEP = "bench.step"
"""What the profile calls a step of ours."""

OPTIMIZER = "Optimizer.step#"
"""The beginning of the name that torch gives to an optimizer's whole step."""

COMMUNICATION = ("gloo:", "nccl:", "mpi:")
"""Beginnings of the names of what the communication library's own threads do."""

ENGINE_CALLS = ("_ORTModuleFunction", "_ORTModuleFunctionBackward")
"""Calls into an engine with a profile of its own: the forward and the backward pass."""

Interval = tuple[float, float]


KernelsOfSteps = Callable[[int, int], Sequence[Sequence[EngineKernel]]]
"""The kernels of each of so many steps, of so many calls of the engine: of its last steps every second."""


class StepProfiler:
    """Profiles steps, a few in each round, and says in the end where the time of every round went.

    Args:
        step: takes one optimizer step.
        processes: that are profiled side by side on this machine, this one included.
        device: of the rank; on CUDA an operator has the time of the kernels that it started.
        synchronize: waits for the device.
        barrier: waits for the other ranks.
        kernels_of_steps: of an engine with a profile of its own.
    """

    def __init__(
        self,
        step: Callable[[Any], Any],
        *,
        processes: int,
        device: torch.device,
        synchronize: Callable[[], None],
        barrier: Callable[[], None],
        kernels_of_steps: KernelsOfSteps | None = None,
    ) -> None:
        self._step = step
        self._device = device
        self._synchronize = synchronize
        self._barrier = barrier
        self._kernels_of_steps = kernels_of_steps
        self._rounds: list[_Round] = []
        self._heap = HeapRoom(processes)

    def profile(self, batches: Iterable[Any], *, counted: bool) -> bool:
        """Take a step with each of `batches`, of which every second is profiled: a round.

        Returns whether no profiled step took much memory from the system.

        Args:
            batches: of `batches_needed`.
            counted: if not, these profiled steps are for warming up and are in no figure.
        """
        on_cuda = self._device.type == "cuda"
        this_round, settled = _Round(), True
        for number, batch in enumerate(batches):
            if number % 2 == 0:  # what is made of the events of the step before has cooled the caches
                if not on_cuda:
                    self._heap.make_room()
                self._step(batch)
                self._synchronize()
                self._barrier()
                continue
            events = self._profile_step(batch)
            settled = settled and (on_cuda or self._heap.sufficed)
            (whole,) = (event for event in events if event.name == STEP and not _is_on_gpu(event))
            (_add_device_seconds if on_cuda else _add_thread_seconds)(this_round.spent, events, whole)
            this_round.seconds += _seconds(whole.time_range.elapsed_us())
            this_round.steps += 1
        if counted:  # else they have but made the heap what it will be
            self._rounds.append(this_round)
        return settled

    def finish(self) -> list[ProfiledRound]:
        """What the counted steps of each round were spent on; ends the profile of the engine's own, too."""
        steps = sum(each.steps for each in self._rounds)
        calls = sum(each.spent.engine_calls() for each in self._rounds)
        if self._kernels_of_steps is not None and calls:
            kernels = iter(self._kernels_of_steps(steps, calls // steps))
            for each in self._rounds:
                each.spent.divide_engine_calls([*itertools.chain(*itertools.islice(kernels, each.steps))])
        return [
            ProfiledRound(
                steps=each.steps, seconds=each.seconds, operators=each.spent.operators(each.seconds)
            )
            for each in self._rounds
        ]

    def _profile_step(self, batch: Any) -> Sequence[Any]:
        """The events of one step.

        A profile of its own for each step: events of many would lie between the step's large tensors, which
        then no longer fit where they were and take new memory from the system, at several times the cost.
        """
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (self._device.type == "cuda")
        with profile(activities=activities) as recorded:
            with self._heap.growing_if_needed(), record_function(STEP):
                self._step(batch)
                self._synchronize()
            # The communication library's threads may still be writing the end of their last event; a profiler
            # that is stopped meanwhile corrupts the heap (seen with torch 2.6 and gloo, once in five runs).
            time.sleep(SETTLING_SECONDS)
        events: Sequence[Any] = recorded.events()
        return events


def batches_needed(steps: int) -> int:
    """For so many profiled steps; each comes after one that is not."""
    return 2 * steps


Key = tuple[str, str, str]
"""Library, part of the step, operator."""


class _Spent:
    """Seconds and calls by library, part of the step and operator."""

    def __init__(self) -> None:
        self.seconds: dict[Key, float] = defaultdict(float)
        self.calls: dict[Key, int] = defaultdict(int)

    def add(
        self, name: str, seconds: float, *, library: str = "torch", part: str = "", calls: int = 1
    ) -> None:
        self.seconds[library, part, name] += seconds
        self.calls[library, part, name] += calls

    def engine_calls(self) -> int:
        """How often an engine with a profile of its own was called."""
        return sum(self.calls["torch", "", name] for name in ENGINE_CALLS)

    def divide_engine_calls(self, kernels: Sequence[EngineKernel]) -> None:
        """Replace the time of the calls into the engine by that of its kernels; the rest is its host's."""
        within = sum(self.seconds.pop(("torch", "", name), 0.0) for name in ENGINE_CALLS)
        for kernel in kernels:
            self.add(kernel.name, kernel.seconds, library="onnxruntime", calls=kernel.calls)
        self.add(HOST, within - sum(kernel.seconds for kernel in kernels), library="onnxruntime", calls=0)

    def operators(self, seconds: float) -> tuple[Operator, ...]:
        """All of them; what is missing up to `seconds` is the host's."""
        self.add(HOST, seconds - sum(self.seconds.values()), calls=0)
        return tuple(
            Operator(
                library=library, part=part, name=name, calls=self.calls[library, part, name], seconds=spent
            )
            for (library, part, name), spent in sorted(self.seconds.items(), key=lambda item: -item[1])
            if spent
        )


@dataclass
class _Round:
    """The counted steps of a round: how many, their seconds, and what they were spent on."""

    steps: int = 0
    seconds: float = 0.0
    spent: _Spent = field(default_factory=_Spent)


def _add_thread_seconds(spent: _Spent, events: Sequence[Any], step: Any) -> None:
    """Add what the thread that took the step spent on each operator, without what that called."""
    waits = _merged(
        (event.time_range.start, event.time_range.end)
        for event in events
        if event.name.startswith(COMMUNICATION) and event.thread != step.thread
    )
    for event in events:
        if event.thread != step.thread or event.is_async or not _is_within_a_step(event):
            continue
        alone = _without_children(event)
        seconds = _seconds(sum(end - start for start, end in alone))
        if part := _part(event):
            spent.add(event.name, seconds, part=part)
            continue
        if _computes(event.name):
            spent.add(event.name, seconds)
            continue
        waiting = _seconds(sum(_overlap(interval, waits) for interval in alone))
        spent.add(WAITING, waiting, calls=0)
        spent.add(HOST, seconds - waiting, calls=0)


def _add_device_seconds(spent: _Spent, events: Sequence[Any], step: Any) -> None:  # noqa: ARG001
    """Add what the GPU spent on the kernels that each operator started."""
    for event in events:
        if not _is_on_gpu(event) and event.self_device_time_total:
            spent.add(event.name, _seconds(event.self_device_time_total), part=_part(event))


def _computes(name: str) -> bool:
    """Whether an operator works itself; what only calls others is the framework, and may wait within."""
    return not name.startswith(
        (STEP, "autograd::engine", "torch::autograd", "DistributedDataParallel", "c10d::")
    )


def _is_on_gpu(event: Any) -> bool:
    return bool(event.device_type != torch.autograd.DeviceType.CPU)


def _is_within_a_step(event: Any) -> bool:
    while event is not None:
        if event.name == STEP:
            return True
        event = event.cpu_parent
    return False


def _part(event: Any) -> str:
    """`optimizer` if the event is, or is within, an optimizer's step; else empty."""
    while event is not None:
        if event.name.startswith(OPTIMIZER):
            return "optimizer"
        event = event.cpu_parent
    return ""


def _without_children(event: Any) -> list[Interval]:
    """The parts of an event's time in which none of the events within it ran."""
    intervals, position = [], event.time_range.start
    for child in sorted(event.cpu_children, key=lambda child: child.time_range.start):
        if child.time_range.start > position:
            intervals.append((position, child.time_range.start))
        position = max(position, child.time_range.end)
    if event.time_range.end > position:
        intervals.append((position, event.time_range.end))
    return intervals


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time as intervals that do not overlap, in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _overlap(interval: Interval, others: Sequence[Interval]) -> float:
    """How much of an interval the others cover; they are in order and do not overlap."""
    start, end = interval
    covered = 0.0
    for place in range(max(0, bisect.bisect_left(others, (start,)) - 1), len(others)):
        if others[place][0] >= end:
            break
        covered += max(0.0, min(end, others[place][1]) - max(start, others[place][0]))
    return covered


def _seconds(microseconds: float) -> float:
    return microseconds / 1e6
