"""Takes a few untimed steps under torch's profiler: where did their time go?

Every moment of a step is counted once. On a CPU an operator gets the time of the rank's main thread in which
the operator itself ran, without the operators that it called. If the main thread ran no operator, it either
waited for other ranks, which the threads of the communication library show, or ran Python and the framework.
`bench.studies.explain.profile_events` says what counts on a device. Where ONNX Runtime ran, its own profile
names its kernels.
"""

import contextlib
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from bench.machine.telemetry.host_memory import read_host_memory
from bench.machine.telemetry.rank_meter import RankMeter
from bench.results.arithmetic import sum_of_all
from bench.studies.explain.messages import RoundProfiled
from bench.studies.explain.operator_kinds import ProfiledRound
from bench.studies.explain.profile_events import (
    ENGINE_CALLS,
    STEP,
    Event,
    Interval,
    Spent,
    Work,
    divide_step,
    interval_of_step,
    read_engine_profile,
)
from bench.studies.explain.thread_time import add_thread_time
from bench.worker.rank.training import Training

SETTLING_SECONDS = 0.05  # after a step, for other threads to write the end of their events

FIRST_BYTES = 128 << 20
"""Memory taken ahead of the first step; a GPT-2 of two layers needs four times as much."""

MISSED_BYTES = 4 << 20  # what a step may still take from the system: 4 ms on a slow machine

SHARE_OF_FREE = 0.5
"""All processes together take at most this share of what is free at first: where small things come to lie at
its end, a heap grows by the whole room at every step."""


class StepProfiler:
    """Profiles rounds of steps, as `processes` processes here do; on CUDA seconds are the device's."""

    def __init__(self, training: Training, meter: RankMeter, processes: int) -> None:
        self._training, self._meter = training, meter
        self._on_cuda = training.device.type == "cuda"
        self._rounds: list[_Round] = []
        self._heap = HeapRoom(processes)

    def profile(self, steps: int, *, counted: bool, replaces: bool = False) -> RoundProfiled:
        """Profile `steps` steps, each after one without profiler; `replaces` the latest that were counted."""
        this_round, settled = _Round(), True
        taken: list[Mapping[str, float | None]] = []  # from the cores, during each profiled step
        for number, batch in enumerate(self._training.steps(2 * steps)):
            if number % 2 == 0:  # what is made of the events of the step before has cooled the caches
                gc.collect()  # torch's profiles refer to themselves, and keep events between the tensors
                if not self._on_cuda:
                    self._heap.make_room()
                self._training.step(batch)
                self._training.synchronize()
                self._training.barrier()
                continue
            events, figures = self._profile_step(batch)
            taken.append(figures)
            settled = settled and (self._on_cuda or self._heap.sufficed)
            if self._on_cuda:
                this_round.add_work(divide_step(events))
            else:
                add_thread_time(this_round.spent, events)
            this_round.add_step(events)
        if replaces:
            self._rounds.pop()
        if counted:  # uncounted steps only make the heap settle
            self._rounds.append(this_round)
        return RoundProfiled(
            settled=settled,
            seconds=this_round.nanoseconds / 1e9,
            other_cpu_seconds=sum_of_all([each["other_cpu_seconds"] for each in taken]),
            stolen_seconds=sum_of_all([each["stolen_seconds"] for each in taken]),
        )

    def finish(self) -> list[ProfiledRound]:
        """What the counted steps of each round were spent on; ends the profile of the engine's own, too."""
        if any(each.engine_calls for each in self._rounds):
            own = read_engine_profile(*self._training.engine.own_profile())
            for each in self._rounds:
                kernels = own.kernels_within(each.engine_calls)
                if self._on_cuda:
                    each.spent.add_work(each.engine_work, kernels)
                else:
                    each.spent.divide_engine_calls(kernels)
        return [
            ProfiledRound(
                steps=each.steps,
                seconds=each.nanoseconds / 1e9,
                operators=each.spent.operators(each.nanoseconds),
            )
            for each in self._rounds
        ]

    def _profile_step(self, batch: Any) -> tuple[list[Event], dict[str, Any]]:
        """The events of one step, and what the meter says of it.

        Each step has a separate profile: events of many would lie between the step's large tensors, which
        then no longer fit where they were and take new memory from the system, at several times the cost.
        """
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * self._on_cuda
        with profile(activities=activities) as recorded:
            self._meter.prepare(new_peak=False)
            with self._heap.growing_if_needed(), record_function(STEP):
                self._meter.start()
                self._training.step(batch)
                self._training.synchronize()
            figures = self._meter.stop()
            # The communication library's threads may still be writing the end of their last event; a profiler
            # that is stopped meanwhile corrupts the heap (seen with torch 2.6 and gloo, once in five runs).
            time.sleep(SETTLING_SECONDS)
        return read_events(recorded), figures


def read_events(recorded: profile) -> list[Event]:
    """All events of torch's profiler."""
    return [
        Event(
            name=event.name(),
            on_device=event.device_type() != torch.autograd.DeviceType.CPU,
            start=event.start_ns(),
            end=event.end_ns(),
            id=event.correlation_id(),
            operator=event.linked_correlation_id(),
            is_range=event.is_user_annotation(),
            thread=event.start_thread_id(),
            is_async=event.is_async() or event.start_thread_id() != event.end_thread_id(),
        )
        for event in recorded.profiler.kineto_results.events()
    ]


@dataclass
class _Round:
    """The counted steps of a round: how many, their time, and what it was spent on."""

    steps: int = 0
    nanoseconds: int = 0
    spent: Spent = field(default_factory=Spent)
    engine_calls: list[Interval] = field(default_factory=list)
    engine_work: list[Work] = field(default_factory=list)  # until the engine's profile assigns it to kernels

    def add_work(self, works: Sequence[Work]) -> None:
        """Add what the device did in one step."""
        self.spent.add_work(work for work in works if work.engine_launch is None)
        self.engine_work += (work for work in works if work.engine_launch is not None)

    def add_step(self, events: Sequence[Event]) -> None:
        """Add one step's time and its calls of an engine with its own profiler."""
        start, end = interval_of_step(events)
        self.steps += 1
        self.nanoseconds += end - start
        self.engine_calls += (
            (event.start, event.end) for event in events if event.name in ENGINE_CALLS and not event.on_device
        )


class HeapRoom:
    """Takes memory from the system ahead of a step, and more of it as long as steps need more.

    A profiler, torch's and ONNX Runtime's alike, keeps its events in the heap, between large tensors, which
    then no longer fit where they were. Memory that is new to the process costs far more than what is computed
    in it: with a GPT-2 of two layers, 100 MiB of it add 100 ms to a step of 400 ms, whichever operator needs
    it. Steps timed without a profiler take almost none. `processes` processes do so on this machine.
    """

    def __init__(self, processes: int) -> None:
        self._left = int(psutil.virtual_memory().available * SHARE_OF_FREE / processes)
        self.bytes = min(FIRST_BYTES, self._left)
        self.sufficed = True  # in the latest step

    def make_room(self) -> None:
        """Take memory, write to it, and leave it to the allocator, unless the total would be too much."""
        if self.bytes > self._left:
            return
        before = _bytes_taken()
        with contextlib.suppress(RuntimeError):  # no memory to spare
            torch.empty(self.bytes, dtype=torch.uint8).fill_(1)
        self._left -= _bytes_taken() - before

    @contextlib.contextmanager
    def growing_if_needed(self) -> Iterator[None]:
        """Watch a step: if it takes memory from the system, the room is doubled from then on."""
        before = _bytes_taken()
        yield
        self.sufficed = _bytes_taken() - before <= MISSED_BYTES
        if not self.sufficed and 2 * self.bytes <= self._left:
            self.bytes *= 2


def _bytes_taken() -> int:
    """What this process holds in memory; the tuned allocator gives nothing of it back to the system.

    Page faults do not show it: with transparent huge pages a single one takes 2 MiB.
    """
    memory = read_host_memory()
    return memory.anonymous if memory else 0
