"""What a device did in a step, by the events of torch's profiler: every moment is counted once.

Computing counts first, then copies; communication only where it is exposed: where the device does nothing
else. When it does nothing at all, the step waits for the host.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.errors import LaunchFailed
from bench.worker.observe.time_spans import Interval, merged, overlap

STEP = "bench.step"
"""What the profile calls a step of ours."""

OPTIMIZER = "Optimizer.step#"
"""The beginning of the name that torch gives to an optimizer's whole step."""

ENGINE_CALLS = ("_ORTModuleFunction", "_ORTModuleFunctionBackward")
"""Calls into an engine with a profile of its own: the forward and the backward pass."""

COPIES = ("Memcpy", "Memset")
"""Beginnings of the names of what moves or fills memory."""

_CUDA_CALL = re.compile(r"cu(da)?[A-Z]")
"""The beginning of the name of a call of CUDA, whose number is one of CUDA's, not of torch's."""

_OPERATOR = re.compile(r"(?!torch::|autograd::)\w+::")
"""The beginning of the name of what computes; what else stands in the profile only calls others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of torch's profiler.

    Attributes:
        name: as torch calls it.
        on_device: whether it is the device's, or the host's.
        start: in nanoseconds of the machine's clock, as `end`.
        id: of the device's work and the call of CUDA that started it the same, counted by CUDA; of all else
            on the host counted by torch.
        operator: the id of the torch operator that started it; 0 if none did.
        is_range: whether it is a range with a name, which a profile has on the device as well, for all that
            was started within it.
    """

    name: str
    on_device: bool
    start: int
    end: int
    id: int
    operator: int
    is_range: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one kernel or copy had of a step to itself."""

    name: str  # of the operator that started it, or its own
    part: str  # `optimizer` if it was started in an optimizer's step; else empty
    call: int  # the same for all that one call of the operator started
    nanoseconds: int  # 0 if others ran all the time
    engine_launch: int | None  # when an engine with a profile of its own started it; None if it did not


def interval_of_step(events: Sequence[Event]) -> Interval:
    """When the host began the step and had waited for the device to end it."""
    (step,) = (event for event in events if event.name == STEP and not event.on_device)
    return step.start, step.end


def divide_step(events: Sequence[Event]) -> list[Work]:
    """What the device did in the step that these events are of.

    Raises:
        LaunchFailed: status `unsupported`, if the profiler saw none of it.
    """
    start, end = interval_of_step(events)
    host = [event for event in events if not event.on_device]
    done = [
        replace(event, start=max(event.start, start), end=min(event.end, end))
        for event in events
        if event.on_device and not event.is_range and event.start < end and event.end > start
    ]
    if not done:
        raise LaunchFailed(
            "unsupported",
            "torch's profiler saw nothing of what the GPU did; end every other profiler and let all users "
            "profile (NVreg_RestrictProfilingToAdminUsers=0 for the driver), or set measure.explain=false",
        )
    launches = {event.id: event.start for event in host if _CUDA_CALL.match(event.name)}
    operators = {event.id: event for event in host if event.id and not _CUDA_CALL.match(event.name)}
    optimizer = [event for event in host if event.name.startswith(OPTIMIZER)]
    works = []
    for event, nanoseconds in _undivided(done):
        communicates = _is_communication(event)
        operator = None if communicates else operators.get(event.operator)
        launch = launches.get(event.id, operator.start if operator else start)
        optimizes = not communicates and any(each.start <= launch <= each.end for each in optimizer)
        named = operator if operator and _OPERATOR.match(operator.name) else None
        works.append(
            Work(
                name=named.name if named else short_name(event.name),
                part="optimizer" if optimizes else "",
                call=(named or event).id,
                nanoseconds=nanoseconds,
                engine_launch=launch if operator and operator.name in ENGINE_CALLS else None,
            )
        )
    return works


def _undivided(done: Sequence[Event]) -> Iterator[tuple[Event, int]]:
    """Each piece of work with its nanoseconds without those of all that counts before it."""
    taken: list[Interval] = []
    for precedence in range(3):
        equals = sorted((each for each in done if _precedence(each) == precedence), key=lambda e: e.start)
        position = 0
        for event in equals:  # of several at once, the one that started first
            start = max(event.start, position)
            yield event, max(0, event.end - start) - overlap((start, event.end), taken)
            position = max(position, event.end)
        taken = merged([*taken, *((event.start, event.end) for event in equals)])


def _precedence(event: Event) -> int:
    return 2 if _is_communication(event) else int(event.name.startswith(COPIES))


def _is_communication(event: Event) -> bool:
    return "nccl" in event.name.lower()


def short_name(kernel: str) -> str:
    """A kernel's name as C++ has it, without its type, the arguments of its template and its own."""
    if kernel.startswith(COPIES):
        return kernel
    name = kernel.replace("(anonymous namespace)::", "")
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name.partition("(")[0].split(" ")[-1]
