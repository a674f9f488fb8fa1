"""torch beside GPUs: what is on a GPU lies in the host's memory and is computed there, at once.

Devices are called `cuda` up to the border of Python: a function mode hands on every call with the CPU in
their place. Threads that torch starts do not have the mode: methods that they call are changed themselves.
"""

import functools
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed
from torch.overrides import TorchFunctionMode

from tests.support.pretended_gpu import DEFERRED_SECONDS, has_fault, profiler
from tests.support.pretended_gpu.nvml import CONTEXT, NAME, notes_of, total_bytes, visible

CAPABILITY = (9, 0)

ACTIVATION_BYTES = 64 << 10
"""What an embedding's token costs in activations, from the forward pass to the end of the backward pass."""

SMALL_BYTES = 1 << 20
SEGMENT_BYTES = 2 << 20
"""What torch's allocator asks the driver for at least."""

CYCLES_PER_SECOND = 1e9


@dataclass
class Pool:
    """Memory for small tensors, or for large ones."""

    allocated: int = 0
    reserved: int = 0


class Gpu:
    """This process's own GPU: how long it is at work, and the bytes that torch's allocator has there."""

    def __init__(self) -> None:
        self.index = 0
        self.busy_until = 0.0  # by time.perf_counter
        self._pools = Pool(), Pool()
        self.peak_allocated = self.peak_reserved = 0
        self.retries = 0
        self._booked: set[int] = set()
        self._held = 0

    @property
    def uuid(self) -> str:
        """As NVML calls it."""
        return visible()[self.index]

    def work(self, seconds: float) -> None:
        """Be at work so much longer than with what was asked before."""
        self.busy_until = max(time.perf_counter(), self.busy_until) + seconds

    def wait(self, until: float | None = None) -> None:
        """Wait for all work, or until a moment."""
        time.sleep(max(0.0, (self.busy_until if until is None else until) - time.perf_counter()))

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor has been made or copied there."""
        return tensor.untyped_storage()._cdata in self._booked

    def book(self, tensor: torch.Tensor, *, size: int) -> None:
        """Count a tensor's bytes as long as its memory lives.

        Raises:
            torch.OutOfMemoryError: in torch's words, if they do not fit.
        """
        if self.holds(tensor):
            return
        storage = tensor.untyped_storage()
        pool = self._pools[size < SMALL_BYTES]
        self._allocate(pool, size)
        self._booked.add(storage._cdata)
        weakref.finalize(storage, self._release, pool, storage._cdata, size)

    def _release(self, pool: "Pool", key: int, size: int) -> None:
        self._booked.discard(key)
        pool.allocated -= size

    def hold(self, size: int) -> None:
        """Count activations until `let_go`; as `book`, if they do not fit."""
        self._allocate(self._pools[False], size)
        self._held += size

    def let_go(self) -> None:
        """The backward pass has used all activations."""
        self._pools[False].allocated -= self._held
        self._held = 0

    def _allocate(self, pool: "Pool", size: int) -> None:
        if pool.allocated + size > pool.reserved:
            self._reserve(pool, pool.allocated + size)
        pool.allocated += size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def _reserve(self, pool: "Pool", wanted: int) -> None:
        wanted = -(-wanted // SEGMENT_BYTES) * SEGMENT_BYTES
        total = self.reserved - pool.reserved + wanted
        others = sum(
            CONTEXT + int(note.read_text() or 0)
            for note in notes_of(self.uuid).glob("[0-9]*")
            if note.name != str(os.getpid()) and os.path.exists(f"/proc/{note.name}")  # noqa: PTH110
        )
        if total + CONTEXT + others > total_bytes():
            self.retries += 1
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {wanted - pool.allocated} bytes. GPU {self.index} "
                f"has a total capacity of {total_bytes()} bytes of which {total_bytes() - others} are free."
            )
        pool.reserved = wanted
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self.note()

    def empty_cache(self) -> None:
        """Give back what no tensor has."""
        for pool in self._pools:
            pool.reserved = pool.allocated
        self.note()

    @property
    def allocated(self) -> int:
        """Bytes that tensors have."""
        return sum(pool.allocated for pool in self._pools)

    @property
    def reserved(self) -> int:
        """Bytes that the allocator has."""
        return sum(pool.reserved for pool in self._pools)

    def note(self) -> None:
        """Let NVML know what this process has."""
        folder = notes_of(self.uuid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(os.getpid())).write_text(str(self.reserved))


GPU = Gpu()


def place(device: Any) -> int:
    """The number of a device, which must be one of CUDA's."""
    if device is None:
        return GPU.index
    if isinstance(device, int):
        return device
    device = torch.device(device)
    assert device.type == "cuda", f"{device} is no GPU"
    return GPU.index if device.index is None else int(device.index)


# --- torch.cuda: the same names and arguments as torch's own ------------------------------------------------


def set_device(device: Any) -> None:
    GPU.index = place(device)
    assert GPU.index < len(visible()), "CUDA error: invalid device ordinal"
    GPU.note()


def get_device_properties(device: Any = None) -> Any:
    shift = 1 if has_fault("wrong-uuid") else 0
    return SimpleNamespace(
        name=NAME,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=total_bytes(),
        multi_processor_count=100,
        uuid=visible()[place(device) - shift].removeprefix("GPU-"),
    )


def synchronize(device: Any = None) -> None:
    place(device)
    GPU.wait()


def reset_peak_memory_stats(device: Any = None) -> None:
    GPU.peak_allocated, GPU.peak_reserved = GPU.allocated, GPU.reserved


GENERATOR = torch.Generator()


def generator(device: Any) -> torch.Generator:
    place(device)
    return GENERATOR


@contextmanager
def stream(stream: Any) -> Iterator[None]:
    assert isinstance(stream, Stream)
    yield


class Stream:
    """All of them are one."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.device = torch.device("cuda", place(device))

    def synchronize(self) -> None:
        GPU.wait()

    def wait_stream(self, stream: "Stream") -> None:
        assert isinstance(stream, Stream)

    def wait_event(self, event: "Event") -> None:
        assert isinstance(event, Event)

    def record_event(self, event: "Event | None" = None) -> "Event":
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        return GPU.busy_until <= time.perf_counter()


class Event:
    """A moment at which all work before it is done."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self._is_timed = enable_timing
        self._moment: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        self._moment = max(time.perf_counter(), GPU.busy_until)

    def wait(self, stream: Stream | None = None) -> None:
        """On the stream."""

    def query(self) -> bool:
        return self._moment is None or self._moment <= time.perf_counter()

    def elapsed_time(self, end_event: "Event") -> float:
        if not (self._is_timed and end_event._is_timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._moment is None or end_event._moment is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not end_event.query():
            raise RuntimeError("CUDA error: device not ready")
        return (end_event._moment - self._moment) * 1e3

    def synchronize(self) -> None:
        if self._moment is not None:
            GPU.wait(self._moment)


IN_TORCH_CUDA: dict[str, Any] = {
    "is_available": lambda: True,
    "device_count": lambda: len(visible()),
    "init": lambda: None,
    "is_initialized": lambda: True,
    "current_device": lambda: GPU.index,
    "set_device": set_device,
    "get_device_name": lambda device=None: NAME,
    "get_device_capability": lambda device=None: CAPABILITY,
    "get_device_properties": get_device_properties,
    "is_bf16_supported": lambda including_emulation=True: True,
    "synchronize": synchronize,
    "is_current_stream_capturing": lambda: False,
    "_sleep": lambda cycles: GPU.work(cycles / CYCLES_PER_SECOND),
    "memory_allocated": lambda device=None: GPU.allocated,
    "max_memory_allocated": lambda device=None: GPU.peak_allocated,
    "memory_reserved": lambda device=None: GPU.reserved,
    "max_memory_reserved": lambda device=None: GPU.peak_reserved,
    "memory_stats": lambda device=None: {"num_alloc_retries": GPU.retries},
    "reset_peak_memory_stats": reset_peak_memory_stats,
    "empty_cache": lambda: GPU.empty_cache(),
    "get_rng_state": lambda device="cuda": generator(device).get_state(),
    "set_rng_state": lambda new_state, device="cuda": generator(device).set_state(new_state),
    "manual_seed": lambda seed: GENERATOR.manual_seed(seed),
    "manual_seed_all": lambda seed: GENERATOR.manual_seed(seed),
    "current_stream": lambda device=None: Stream(device),
    "default_stream": lambda device=None: Stream(device),
    "stream": stream,
    "Stream": Stream,
    "Event": Event,
}


# --- tensors -------------------------------------------------------------------------------------------

WAITING = frozenset({torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.cpu, torch.Tensor.numpy})
"""What the host reads off a GPU, it waits for."""

IN_FP32 = frozenset(
    {
        *(torch.nn.functional.layer_norm, torch.nn.functional.softmax, torch.nn.functional.log_softmax),
        *(torch.nn.functional.cross_entropy, torch.nn.functional.group_norm),
    }
)
"""What CUDA's autocast runs in fp32, and a CPU's does not."""


class OnGpu(TorchFunctionMode):
    """Hands on every call with the CPU in place of GPUs, and books what it makes there."""

    autocasts = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in WAITING:
            GPU.wait()
        if func is torch.Tensor.float and not args[0].requires_grad:  # of a loss that is not trained on
            GPU.let_go()
        if func is torch.Tensor.type and len(args) == 1 and not kwargs:
            return func(*args).replace("torch.", "torch.cuda.")
        if func is torch.Tensor.cuda:
            func, args, kwargs = torch.Tensor.to, (args[0], "cuda"), {}
        if func in IN_FP32 and OnGpu.autocasts:
            args = (args[0].float(), *args[1:])
        there = func is not torch.device and any(map(_is_gpu, (*args, *kwargs.values())))
        if not there:
            if func is torch.nn.functional.embedding and torch.is_grad_enabled() and visible():
                GPU.hold(args[0].numel() * ACTIVATION_BYTES)
            return func(*args, **kwargs)
        try:
            result = func(*map(_as_cpu, args), **{name: _as_cpu(value) for name, value in kwargs.items()})
        except RuntimeError as error:
            if "can't allocate memory" not in str(error):
                raise
            raise torch.OutOfMemoryError(
                str(error).replace("DefaultCPUAllocator", "CUDA out of memory")
            ) from None
        if isinstance(result, torch.Tensor):
            return _place_on_gpu(result, args[0] if args else None)
        return result


def _is_gpu(value: Any) -> bool:
    if isinstance(value, str):
        return value.partition(":")[0] == "cuda"
    return isinstance(value, torch.device) and value.type == "cuda"


def _as_cpu(value: Any) -> Any:
    return torch.device("cpu") if _is_gpu(value) else value


def _place_on_gpu(result: torch.Tensor, source: Any) -> torch.Tensor:
    """Book what was made there; what was copied from the host is no longer the host's."""
    size = result.untyped_storage().nbytes()
    if result is source:
        if GPU.holds(result):
            return result
        result = result.detach().clone().requires_grad_(result.requires_grad)
    GPU.book(result, size=size)
    return result


def _change_tensors(module: Any) -> None:
    """What threads without the mode call, such as the one that pins a loader's batches."""
    pinned: Any = weakref.WeakSet()

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        copy = self.clone()
        pinned.add(copy.untyped_storage())
        return copy

    def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
        return self.untyped_storage() in pinned

    module.Tensor.pin_memory, module.Tensor.is_pinned = pin_memory, is_pinned
    module.Tensor.record_stream = lambda *_: None
    enter, leave = module.autocast.__enter__, module.autocast.__exit__
    begin = module.autocast.__init__

    @functools.wraps(begin)
    def initialise(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)
        self.is_pretended = device_type == "cuda" and self._enabled

    def enter_counted(self: Any) -> Any:
        OnGpu.autocasts += self.is_pretended
        return enter(self)

    def leave_counted(self: Any, *args: Any) -> Any:
        OnGpu.autocasts -= self.is_pretended
        return leave(self, *args)

    module.autocast.__init__ = initialise
    module.autocast.__enter__, module.autocast.__exit__ = enter_counted, leave_counted


def _change_backward(module: Any) -> None:
    run = module.autograd._engine_run_backward

    @functools.wraps(run)
    def run_on_gpu(*args: Any, **kwargs: Any) -> Any:
        with OnGpu():  # hooks make tensors, too
            gradients = run(*args, **kwargs)
        GPU.let_go()
        GPU.work(DEFERRED_SECONDS if has_fault("deferred") else 0.0)
        return gradients

    module.autograd._engine_run_backward = run_on_gpu


# --- torch.distributed ---------------------------------------------------------------------------------


def _change_distributed(module: ModuleType) -> None:
    distributed, parallel = module.distributed, module.nn.parallel.DistributedDataParallel
    start, barrier, backend = distributed.init_process_group, distributed.barrier, distributed.get_backend
    wrap = parallel.__init__

    @functools.wraps(start)
    def init_process_group(name: str | None = None, *args: Any, device_id: Any = None, **kwargs: Any) -> None:
        assert name == "nccl", f"ranks on GPUs talk over {name}"
        assert device_id == torch.device("cuda", GPU.index), f"NCCL is bound to {device_id}"
        start("gloo", *args, **kwargs)

    @functools.wraps(barrier)
    def barrier_on_gpu(*args: Any, device_ids: Any = None, **kwargs: Any) -> Any:
        assert device_ids in (None, [GPU.index]), f"the barrier is on {device_ids}"
        GPU.wait()
        return barrier(*args, **kwargs)

    @functools.wraps(backend)
    def get_backend(*args: Any, **kwargs: Any) -> str:
        return str(backend(*args, **kwargs)).replace("gloo", "nccl")

    @functools.wraps(wrap)
    def initialise(self: Any, module: Any, device_ids: Any = None, *args: Any, **kwargs: Any) -> None:
        assert device_ids == [torch.device("cuda", GPU.index)], f"DDP is on {device_ids}"
        wrap(self, module, None, *args, **kwargs)

    for place_of_it in (distributed, distributed.distributed_c10d):
        place_of_it.init_process_group = init_process_group
        place_of_it.barrier, place_of_it.get_backend = barrier_on_gpu, get_backend
    parallel.__init__ = initialise


def change(module: Any) -> None:
    """Make torch find GPUs."""
    for name, each in IN_TORCH_CUDA.items():
        for place_of_it in (module.cuda, module.cuda.memory, module.cuda.random, module.cuda.streams):
            if hasattr(place_of_it, name):
                setattr(place_of_it, name, each)
    for name in ("Int", "Long", "Half", "BFloat16", "Float", "Double", "Byte"):
        setattr(module.cuda, f"{name}Tensor", getattr(module, f"{name}Tensor"))
    module.cuda.nvtx.range_push = module.cuda.nvtx.range_pop = lambda *_: 0
    _change_tensors(module)
    _change_backward(module)
    _change_distributed(module)
    profiler.change(module)
    OnGpu().__enter__()


def multiply_smaller(module: ModuleType) -> None:
    """Squares that are useful on a GPU take a CPU minutes, and how fast it multiplies says nothing."""
    module.WIDTHS["cuda"], module.SECONDS["cuda"] = module.WIDTHS["cpu"], (0.01, 0.02)


PATCHES = {"torch": change, "bench.studies.limit.products": multiply_smaller}
