"""torch's profiler beside GPUs: for what the CPU has computed it says that a GPU has, a little later."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tests.support.pretended_gpu import has_fault

ENGINE_CALLS = ("_ORTModuleFunction", "_ORTModuleFunctionBackward")
FUSED = "Optimizer.step#FusedAdam.step"
WITHOUT_KERNEL = (
    *("view", "t", "as_strided", "expand", "reshape"),
    *("detach", "resolve", "empty", "slice", "select"),
)
SPACING_NS = 20_000
"""Between two launches of ONNX Runtime."""


@dataclass(frozen=True)
class Event:
    """What a profiler's own event answers."""

    _name: str
    _is_on_device: bool
    _start: int
    _end: int
    _id: int
    _linked: int
    _is_range: bool = False

    def name(self) -> str:
        return self._name

    def device_type(self) -> Any:
        kinds = torch.autograd.DeviceType
        return kinds.CUDA if self._is_on_device else kinds.CPU

    def start_ns(self) -> int:
        return self._start

    def end_ns(self) -> int:
        return self._end

    def start_thread_id(self) -> int:
        return 0

    end_thread_id = start_thread_id

    def is_async(self) -> bool:
        return False

    def is_user_annotation(self) -> bool:
        return self._is_range

    def correlation_id(self) -> int:
        return self._id

    def linked_correlation_id(self) -> int:
        return self._linked


class Results:
    """A profile with the GPU's events; its numbers begin anew, as CUDA's do."""

    def __init__(self, results: Any) -> None:
        self._results = results

    def __getattr__(self, name: str) -> Any:
        return getattr(self._results, name)

    def events(self) -> list[Any]:
        recorded = list(self._results.events())
        if has_fault("no-events"):
            return recorded
        return [*recorded, *_device_events(recorded)]


def _device_events(recorded: list[Any]) -> Iterator[Event]:
    """Launches and kernels: of operators, an engine's calls, and communication."""
    for each in recorded:  # a range of the host's has one on the GPU
        if each.name().startswith("Optimizer.step#"):
            yield Event(each.name(), True, each.start_ns(), each.end_ns(), 0, 0, True)
    fused = [(each.start_ns(), each.end_ns()) for each in recorded if each.name() == FUSED]
    numbers, idle_from = itertools.count(1), 0
    for event, name, start, end in sorted(_launched(recorded), key=lambda launched: launched[2]):
        number = next(numbers)
        communicates = name.startswith("nccl")
        # Torch knows of no operator of its own that has started an extension's kernel.
        is_fused = any(begin <= start <= last for begin, last in fused)
        linked = 0 if is_fused else event.correlation_id()
        yield Event("cudaLaunchKernel", False, start, start + 1000, number, linked)
        begun = start if communicates else max(end, idle_from)
        ended = end if communicates else begun + (end - start) // 2
        if not communicates:
            idle_from = ended
        yield Event(name, True, begun, ended, number, linked)


def _own_times(recorded: list[Any]) -> list[tuple[Any, int]]:
    """Torch's operators, and how long each was at work itself."""
    times: list[tuple[Any, int]] = []
    open_by_thread: dict[int, list[int]] = {}
    for each in sorted(recorded, key=lambda event: (event.start_ns(), -event.end_ns())):
        if not each.name().startswith("aten::"):
            continue
        callers = open_by_thread.setdefault(each.start_thread_id(), [])
        while callers and times[callers[-1]][0].end_ns() <= each.start_ns():
            callers.pop()
        duration = each.end_ns() - each.start_ns()
        if callers:
            caller, own = times[callers[-1]]
            times[callers[-1]] = caller, own - duration
        callers.append(len(times))
        times.append((each, duration))
    return times


def _launched(recorded: list[Any]) -> Iterator[tuple[Any, str, int, int]]:
    """Who starts a kernel, the kernel's name, and when the CPU was at work on it."""
    for each, seconds in _own_times(recorded):
        name = each.name().removeprefix("aten::")
        if seconds > (each.end_ns() - each.start_ns()) / 2 and not name.startswith(WITHOUT_KERNEL):
            yield each, f"void at::native::{name}_kernel<4, float>(int)", each.start_ns(), each.end_ns()
    for each in recorded:
        if each.name() in ENGINE_CALLS:
            for start in range(each.start_ns(), each.end_ns() - SPACING_NS, SPACING_NS):
                yield each, "void onnxruntime::cuda::kernel<float>(float*)", start, start + SPACING_NS
        if each.name().startswith("gloo:"):
            yield each, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", each.start_ns(), each.end_ns()


def change(module: Any) -> None:
    """Make torch's profiler see a GPU."""
    profile, recorder = module.profiler.profile, module.autograd.profiler.profile
    begin, leave = profile.__init__, recorder.__exit__

    @functools.wraps(begin)
    def initialise(self: Any, *, activities: Any = None, **kwargs: Any) -> None:
        kinds = module.profiler.ProfilerActivity
        assert kinds.CUDA in activities, "a profile beside GPUs that does not look at them"
        begin(self, activities=[kinds.CPU], **kwargs)

    @functools.wraps(leave)
    def add_events(self: Any, *args: Any) -> Any:
        answer = leave(self, *args)
        self.kineto_results = Results(self.kineto_results)
        return answer

    profile.__init__, recorder.__exit__ = initialise, add_events
    module.cuda.nccl.version = lambda: (2, 21, 5)  # which a profile notes
