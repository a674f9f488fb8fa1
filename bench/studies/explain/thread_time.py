"""On a CPU: the time that the step's thread spent on each operator, without the operators that it called."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.studies.explain.operator_kinds import HOST, WAITING
from bench.studies.explain.profile_events import OPTIMIZER, STEP, Event, Interval, Spent, merged, overlap

COMMUNICATION = ("gloo:", "nccl:", "mpi:")
"""Beginnings of the names of what the communication library's own threads do."""

UNCOUNTED = ("profiler::", "aten::is_leaf", "aten::output_nr", "aten::_version")
"""Beginnings of the names of what takes no time worth a name: it is the caller's."""


@dataclass(slots=True)
class _Open:
    """An event that has not ended, and the moment from which on its own time is not yet counted."""

    event: Event
    counted_until: int
    optimizes: bool


def add_thread_time(spent: Spent, events: Sequence[Event]) -> None:
    """Add a step's time, by the operator that ran; between operators the thread waits, or is the host's.

    It waits as long as a thread of the communication library is at work.
    """
    (step,) = (event for event in events if event.name == STEP)
    waits = merged(
        (event.start, event.end)
        for event in events
        if event.name.startswith(COMMUNICATION) and event.thread != step.thread
    )
    for around, (start, end), begins in _own_times(step, events):
        name = around.event.name
        if around.optimizes:
            spent.add(name, end - start, part="optimizer", calls=begins)
        elif _computes(name):
            spent.add(name, end - start, calls=begins)
        else:
            waiting = overlap((start, end), waits)
            spent.add(WAITING, waiting, calls=0)
            spent.add(HOST, end - start - waiting, calls=0)


def _own_times(step: Event, events: Sequence[Event]) -> Iterator[tuple[_Open, Interval, bool]]:
    """The intervals in which each event of the step's thread ran itself; of each the first says so.

    An event lies within another if it neither begins before nor ends after it. One that calls nothing but
    another of its name, as torch's operators do for some types, is not a second call.
    """
    inside = [
        event
        for event in events
        if event.thread == step.thread
        and not event.is_async
        and step.start <= event.start
        and event.end <= step.end
        and not event.name.startswith(UNCOUNTED)
        and event is not step
    ]
    inside.sort(key=lambda event: (event.start, -event.end))
    held = [_Open(step, step.start, optimizes=False)]

    def close(latest: int) -> tuple[_Open, Interval, bool]:
        ended = held.pop()
        return ended, (ended.counted_until, max(ended.counted_until, min(ended.event.end, latest))), False

    for event in inside:
        while event.end > held[-1].event.end:
            yield close(event.start)
        caller = held[-1]
        if event.start > caller.counted_until:
            yield caller, (caller.counted_until, event.start), False
        caller.counted_until = max(caller.counted_until, event.end)
        optimizes = caller.optimizes or event.name.startswith(OPTIMIZER)
        held.append(_Open(event, event.start, optimizes))
        yield held[-1], (event.start, event.start), event.name != caller.event.name
    while held:
        yield close(step.end)


def _computes(name: str) -> bool:
    """Whether an operator computes; one that only calls others is the framework, and may wait inside."""
    return not name.startswith(
        (STEP, "autograd::engine", "torch::autograd", "DistributedDataParallel", "c10d::")
    )
