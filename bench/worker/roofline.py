"""Counts the FLOPs of a step and times matrix products, to compare training with what the device can do.

The share of a device's floating-point operations that the model's own take is called MFU in Chowdhery et al.
2022 (PaLM, arXiv:2204.02311, appendix B): work that an engine does twice, such as recomputed activations,
counts once. Here the device's limit is measured, not read off a data sheet.
"""

import copy
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from bench.launch.spec import WorkerSpec
from bench.results.records import Product
from bench.worker.workload import model as models
from bench.worker.workload.feed import Batch
from bench.worker.workload.precision import SIXTEEN_BITS

WIDTHS = {"cpu": (512, 1024, 2048), "cuda": (4096, 8192, 16384)}
"""Of the square matrices that are multiplied."""

WARM_UP, WINDOW = 0.25, 0.25
"""Seconds of each width, before and while readings count; in the first a cold GPU's clock still rises."""

READING = 0.01
"""Seconds between two looks at the clock, about, so that waiting for a GPU takes next to nothing of them."""

MOST_BUILT = 10**9
"""Parameters of a model that may be built a second time, on the CPU and in fp32, to count its FLOPs."""


def product(
    device: torch.device,
    precision: str,
    *,
    synchronize: Callable[[], None],
    barrier: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> Product:
    """The quickest matrix products of this rank while all ranks multiply: FLOPs and the seconds they took.

    Whatever happens, every rank comes to as many barriers.

    Raises:
        RuntimeError: not even the narrowest matrices could be multiplied.
    """
    best: Product | None = None
    failure: RuntimeError | None = None
    for width in WIDTHS[device.type]:
        barrier()
        try:
            if best is None or 2 * width**3 * best.seconds < WARM_UP * best.flops:
                reading = _quickest(width, device, precision, synchronize, clock)
                if best is None or reading.flops * best.seconds > best.flops * reading.seconds:
                    best = reading
        except RuntimeError as error:  # no memory for matrices as wide as this, or no kernel
            failure = error
    if best is None:
        raise failure or RuntimeError("nothing was multiplied")
    return best


def _quickest(
    width: int,
    device: torch.device,
    precision: str,
    synchronize: Callable[[], None],
    clock: Callable[[], float],
) -> Product:
    """The quickest reading of products of this width.

    What ends after the window does not count, since other ranks may have stopped by then; but where not even
    one product fits into it, as with fp16 on some CPUs, that one is what there is.
    """
    start = clock()
    dtype = SIXTEEN_BITS.get(precision, torch.float32)
    one, other = (torch.randn(width, width, device=device, dtype=dtype) for _ in range(2))

    def read(products: int) -> float:
        synchronize()
        begun = clock()
        for _ in range(products):
            torch.nn.functional.linear(one, other)
        synchronize()
        return clock() - begun

    read(1)  # the first of its kind loads and chooses kernels
    seconds = read(1)
    while clock() < start + WARM_UP:
        seconds = min(seconds, read(1))
    products = max(1, round(READING / seconds))
    quickest = products * seconds
    while True:
        seconds = read(products)
        if clock() > start + WARM_UP + WINDOW:
            return Product(flops=2 * width**3 * products, seconds=quickest)
        quickest = min(quickest, seconds)


def counted(spec: WorkerSpec, batch: Batch) -> dict[str, Any]:
    """FLOPs of one rank's forward and backward pass, with `batch` and with twice as many samples.

    Two counts, since not all work grows with the samples: relative positions are computed once a pass. The
    model is the reference's as published: eager attention, no checkpointing, not wrapped by any engine.
    Positions of padding count, as they are computed. Counted are matrix products and convolutions, not what
    is done element by element, and not the optimizer.

    Shapes suffice for that, so nothing is computed and no memory is taken (torch's FakeTensorMode). Where
    shapes depend on data, as with mixtures of experts, the model really runs.

    Raises:
        ValueError: it has to be built for real and is too large for that.
    """
    batches = [
        (times * spec.micro_batch, {name: torch.cat([value] * times) for name, value in batch.items()})
        for times in (1, 2)
    ]
    mode = FakeTensorMode()
    try:
        model = _fake(spec, mode)
        with mode:
            found = [
                (samples, count(model, {name: mode.from_tensor(value) for name, value in inputs.items()}))
                for samples, inputs in batches
            ]
        return {"counted": found, "counted_on": "shapes"}
    except Exception:  # there are many ways to need data; a fault of the model's own comes again
        _check_size(spec)
    model = _built(spec)
    return {"counted": [(samples, count(model, inputs)) for samples, inputs in batches], "counted_on": "data"}


def count(model: torch.nn.Module, batch: Batch) -> int:
    """FLOPs of one forward and backward pass; a multiplication and an addition are two."""
    with FlopCounterMode(display=False) as counter:
        model(**batch).loss.backward()
    model.zero_grad()
    return int(counter.get_total_flops())


def _built(spec: WorkerSpec) -> torch.nn.Module:
    model = models.build(spec.model, attention="eager", dropout=False)
    if hasattr(model, "set_experts_implementation"):  # transformers 5 groups experts into an unknown operator
        model.set_experts_implementation("eager")
    return model


def _fake(spec: WorkerSpec, mode: FakeTensorMode) -> torch.nn.Module:
    """The model as shapes; some need values while they are built, and are copied."""
    try:
        with mode:
            return _built(spec)
    except RuntimeError:
        _check_size(spec)
    real = _built(spec)
    with FakeCopyMode(mode):
        return copy.deepcopy(real)


def _check_size(spec: WorkerSpec) -> None:
    if spec.model.size == "published" and spec.model.parameters > MOST_BUILT:
        raise ValueError(f"{spec.model.name} is too large to be counted by more than its shapes")
