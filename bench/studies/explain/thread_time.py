"""On a CPU: the time that the step's thread spent on each operator, without the operators that it called."""

from collections.abc import Sequence

from bench.studies.explain.operator_kinds import HOST, WAITING
from bench.studies.explain.profile_events import OPTIMIZER, STEP, Event, Spent, merged, overlap

COMMUNICATION = ("gloo:", "nccl:", "mpi:")
"""Beginnings of the names of what the communication library's own threads do."""

UNCOUNTED = ("profiler::", "aten::is_leaf", "aten::output_nr", "aten::_version")
"""Beginnings of the names of what takes no time worth a name: it is the caller's."""


def add_thread_time(spent: Spent, events: Sequence[Event]) -> None:
    """Add a step's time, by the operator that ran; between operators the thread waits, or is the host's.

    At every moment the innermost event that has not ended runs. An event is within another if it neither
    begins before nor ends after it. The thread waits as long as one of the communication library works.
    """
    (step,) = (event for event in events if event.name == STEP)
    waits = merged(
        (event.start, event.end)
        for event in events
        if event.name.startswith(COMMUNICATION) and event.thread != step.thread
    )
    inside = [
        event
        for event in events
        if event.thread == step.thread
        and not event.is_async
        and step.start <= event.start
        and event.end <= step.end
        and not event.name.startswith((STEP, *UNCOUNTED))
    ]
    held = [(step, "")]  # the events that have not ended, each with its part of the step
    moment = step.start

    def spend(until: int) -> None:
        nonlocal moment
        start, moment = moment, max(moment, until)
        event, part = held[-1]
        if part or _computes(event.name):
            spent.add(event.name, moment - start, part=part, calls=0)
        else:
            waiting = overlap((start, moment), waits)
            spent.add(WAITING, waiting, calls=0)
            spent.add(HOST, moment - start - waiting, calls=0)

    for event in sorted(inside, key=lambda event: (event.start, -event.end)):
        while event.end > held[-1][0].end:
            spend(min(event.start, held[-1][0].end))
            held.pop()
        spend(event.start)
        caller, part = held[-1]
        part = part or "optimizer" * event.name.startswith(OPTIMIZER)
        # One that calls nothing but another of its name, as some of torch's operators do, is called once.
        if event.name != caller.name and (part or _computes(event.name)):
            spent.add(event.name, 0, part=part)
        held.append((event, part))
    while held:
        spend(held[-1][0].end)
        held.pop()


def _computes(name: str) -> bool:
    """Whether an operator computes; one that only calls others is the framework, and may wait inside."""
    return not name.startswith(
        (STEP, "autograd::engine", "torch::autograd", "DistributedDataParallel", "c10d::")
    )
