"""The profilers' events of a step, and each operator's own time: every moment is counted once.

On a device computing counts first, then copies; communication counts only where it is exposed, which means
that the device does nothing else. An idle device waits for the host. An engine may have its own profiler, on
the same clock as torch's: its profile names the kernels, while torch's shows only the calls.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from bench.errors import LaunchFailed
from bench.studies.explain.operator_kinds import HOST, Operator

Interval = tuple[int, int]  # start and end, in nanoseconds of the machine's clock
Key = tuple[str, str, str]  # library, part of the step, operator

STARTS = attrgetter("start")

TOLERANCE_NS = 10_000
"""How far the clocks of two profiles may differ: about as long as a launch on a device takes."""

STEP = "bench.step"  # the name of a step in the profile

OPTIMIZER = "Optimizer.step#"
"""The beginning of the name that torch gives to an optimizer's whole step."""

ENGINE_CALLS = ("_ORTModuleFunction", "_ORTModuleFunctionBackward")
"""Calls into an engine with its own profiler: the forward and the backward pass."""

EXECUTION = "SequentialExecutor::Execute"
"""What ONNX Runtime's profile calls one execution of a part of the graph, forward or backward."""

HANDED_OVER = ("ATen", "PythonOp", "PythonOpGrad")  # operators that hand over to PyTorch

COPIES = ("Memcpy", "Memset")  # beginnings of the names of what moves or fills memory

_CUDA_CALL = re.compile(r"cu(da)?[A-Z]")
"""The beginning of the name of a CUDA call; CUDA, not torch, numbers these."""

_OPERATOR = re.compile(r"(?!torch::|autograd::)\w+::")
"""The beginning of the names of computing operators; all others in the profile only call these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of torch's profiler.

    The device's work and the CUDA call that started it have the same `id`, counted by CUDA; torch counts
    the ids of all other events on the host.
    """

    name: str  # as torch calls it
    on_device: bool  # False: on the host
    start: int  # in nanoseconds of the machine's clock, as `end`
    end: int
    id: int
    operator: int  # the id of the torch operator that started it; 0 if none did
    thread: int = 0  # of the host, on which it began
    is_async: bool = False  # it may end on another
    is_range: bool = False  # with a name: a profile has it on the device, too, for all that it started


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The time that one kernel or copy had for itself in a step."""

    name: str  # of the operator that started it, or its own
    part: str  # `optimizer` if it was started in an optimizer's step; else empty
    call: int  # the same for all that one call of the operator started
    nanoseconds: int  # 0 if others ran all the time
    engine_launch: int | None  # when an engine with its own profiler started it; None if it did not


def interval_of_step(events: Sequence[Event]) -> Interval:
    """When the host began the step and had waited for the device to end it."""
    (step,) = (event for event in events if event.name == STEP and not event.on_device)
    return step.start, step.end


def divide_step(events: Sequence[Event]) -> list[Work]:
    """What the device did in a step, by its events; `unsupported` if the profiler saw none of it."""
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
    """Each piece of work with its nanoseconds, less those of overlapping work that takes precedence."""
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
    """A kernel's C++ name, without its type, template arguments and parameters."""
    if kernel.startswith(COPIES):
        return kernel
    name = kernel.replace("(anonymous namespace)::", "")
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name.partition("(")[0].split(" ")[-1]


@dataclass(frozen=True, kw_only=True)
class EngineKernel:
    """One run of a kernel, or on a device its launch, which a kernel may outlast."""

    name: str  # of the engine's operator
    start: int  # in nanoseconds of the machine's clock, as `end`
    end: int


@dataclass(frozen=True, kw_only=True)
class EngineProfile:
    """An engine's own profile, in order; empty if torch's profile has its kernels."""

    executions: Sequence[Interval] = ()  # one for each call of the engine
    kernels: Sequence[EngineKernel] = ()  # of all executions, without those that PyTorch ran for the engine

    def kernels_within(self, calls: Iterable[Interval]) -> list[EngineKernel]:
        """The kernels of these calls, as torch timed them; `unsupported` unless each holds one execution."""
        kernels: list[EngineKernel] = []
        for start, end in calls:
            low, high = (bisect.bisect_left(self.executions, (at,)) for at in (start - TOLERANCE_NS, end))
            held = self.executions[low:high]
            if len(held) != 1 or held[0][1] > end + TOLERANCE_NS:
                raise LaunchFailed(
                    "unsupported",
                    "the engine's own profile does not show one execution within each call that torch's "
                    "profiler saw: their clocks differ, or it was full before the end; set "
                    "measure.explain=false",
                )
            low, high = (bisect.bisect_left(self.kernels, at, key=STARTS) for at in held[0])
            kernels += self.kernels[low:high]
        return kernels


def read_engine_profile(events: Sequence[dict[str, Any]], beginning: int) -> EngineProfile:
    """The profile of events in microseconds since `beginning`, in nanoseconds of the machine's clock."""
    executions, kernels = [], []
    for event in events:
        start = beginning + 1000 * event["ts"]
        end = start + 1000 * event["dur"]
        if event["name"] == EXECUTION:
            executions.append((start, end))
        elif event["name"].endswith("_kernel_time") and event["args"]["op_name"] not in HANDED_OVER:
            kernels.append(EngineKernel(name=event["args"]["op_name"], start=start, end=end))
    return EngineProfile(
        executions=merged(executions),  # those of subgraphs lie within others
        kernels=sorted(kernels, key=lambda kernel: kernel.start),
    )


def kernel_at(kernels: Sequence[EngineKernel], at: int) -> EngineKernel | None:
    """Return the one of these kernels, in order, that ran at a moment; None if it was between them."""
    place = bisect.bisect_right(kernels, at, key=STARTS) - 1
    return kernels[place] if place >= 0 and at <= kernels[place].end else None


class Spent:
    """Nanoseconds and calls by library, part of the step and operator."""

    def __init__(self) -> None:
        self._nanoseconds: Counter[Key] = Counter()
        self._calls: Counter[Key] = Counter()

    def add(
        self, name: str, nanoseconds: int, *, library: str = "torch", part: str = "", calls: int = 1
    ) -> None:
        """Add an operator's own time."""
        self._nanoseconds[library, part, name] += nanoseconds
        self._calls[library, part, name] += calls

    def add_work(self, works: Iterable[Work], kernels: Sequence[EngineKernel] = ()) -> None:
        """Add what a device did; an operator that did several things in one call counts as called once.

        Work that an engine started during one of its kernels, by the other clock, belongs to that kernel.
        """
        seen: set[tuple[Key, int]] = set()
        for work in works:
            kernel = None if work.engine_launch is None else kernel_at(kernels, work.engine_launch)
            library = "torch" if work.engine_launch is None else "onnxruntime"
            key = (library, work.part, kernel.name if kernel else work.name)
            call = (key, kernel.start if kernel else work.call)
            self.add(key[2], work.nanoseconds, library=library, part=work.part, calls=call not in seen)
            seen.add(call)

    def divide_engine_calls(self, kernels: Iterable[EngineKernel]) -> None:
        """Replace the time of the calls into an engine by that of its kernels; the rest is host time."""
        left = sum(self._nanoseconds.pop(("torch", "", name), 0) for name in ENGINE_CALLS)
        for kernel in kernels:
            self.add(kernel.name, kernel.end - kernel.start, library="onnxruntime")
            left -= kernel.end - kernel.start
        self.add(HOST, left, library="onnxruntime", calls=0)

    def operators(self, nanoseconds: int) -> tuple[Operator, ...]:
        """All operators, the longest first; the time missing up to `nanoseconds` is the host's."""
        self.add(HOST, nanoseconds - sum(self._nanoseconds.values()), calls=0)
        return tuple(
            Operator(
                library=library,
                part=part,
                name=name,
                calls=self._calls[library, part, name],
                seconds=spent / 1e9,
            )
            for (library, part, name), spent in self._nanoseconds.most_common()
            if spent
        )


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Join intervals into ones that do not overlap, in order."""
    apart: list[Interval] = []
    for start, end in sorted(intervals):
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end))
        else:
            apart.append((start, end))
    return apart


def overlap(interval: Interval, others: Sequence[Interval]) -> int:
    """How much of an interval the others cover; they are in order and do not overlap."""
    start, end = interval
    covered = 0
    for place in range(max(0, bisect.bisect_left(others, (start,)) - 1), len(others)):
        if others[place][0] >= end:
            break
        covered += max(0, min(end, others[place][1]) - max(start, others[place][0]))
    return covered
