"""Counts the FLOPs of a step: all, and those of each shape of matrix product.

The share of a device's floating-point operations that the model's own take is called MFU in Chowdhery et al.
2022 (PaLM, arXiv:2204.02311, appendix B): work that an engine does twice, such as recomputed activations,
counts once. The limit that it is a share of is timed by `bench.studies.limit.products`.
"""

import copy
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from bench.config.model import Model
from bench.launch.spec import WorkerSpec
from bench.studies.limit.found import Roofline, Shape, WorkloadProduct
from bench.worker.sharding import Batch
from bench.worker.workload import model as models

COVERED, MOST_SHAPES = 0.9, 8
"""The shapes that are timed have this share of the matrix products' FLOPs, unless that takes too many."""

MOST_BUILT = 10**9
"""Parameters of a model that may be built a second time, on the CPU and in fp32, to count its FLOPs."""

_OPERANDS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
"""Operators that multiply matrices, and which of their arguments is the first matrix."""


def count_step(spec: WorkerSpec, batch: Batch) -> Roofline:
    """FLOPs of one rank's forward and backward pass, with `batch` and with twice as many samples.

    Two counts, since not all work grows with the samples: relative positions are computed once a pass. The
    model is the reference's as published: eager attention, no checkpointing, not wrapped by any engine.
    Positions of padding count, as they are computed. Counted are matrix products and convolutions, not what
    is done element by element, and not the optimizer.

    Shapes suffice for that, so nothing is computed and no memory is taken (torch's FakeTensorMode). Where
    shapes depend on data, as with mixtures of experts, the model really runs: a `ValueError` if too large.
    """
    batches = [{name: torch.cat([value] * times) for name, value in batch.items()} for times in (1, 2)]
    mode = FakeTensorMode()
    try:
        model = _fake(spec, mode)
        with mode:
            counts = [
                count(model, {name: mode.from_tensor(value) for name, value in inputs.items()})
                for inputs in batches
            ]
    except Exception:  # there are many ways to need data; a fault of the model's own comes again
        _check_size(spec)
        model = _built(spec.model)
        counts = [count(model, inputs) for inputs in batches]
    return Roofline(
        counted=tuple(
            (times * spec.samples_per_pass, count.flops) for times, count in enumerate(counts, start=1)
        ),
        products=tuple(choose_products(counts[0].products)),
    )


def choose_products(flops: Mapping[Shape, int]) -> list[WorkloadProduct]:
    """The shapes with most FLOPs that together have `COVERED` of them, at most `MOST_SHAPES`."""
    chosen: list[WorkloadProduct] = []
    missing = COVERED * sum(flops.values())
    for shape, of_shape in sorted(flops.items(), key=lambda item: -item[1])[:MOST_SHAPES]:
        if missing <= 0:
            break
        chosen.append(WorkloadProduct(shape=shape, flops=of_shape))
        missing -= of_shape
    return chosen


def count(model: torch.nn.Module, batch: Batch) -> "Count":
    """What one forward and backward pass of `model` takes."""
    # The counter comes first: it takes composite operators apart, so that the other sees what is computed.
    with Count() as counted, FlopCounterMode(display=False) as counter:
        model(**batch).loss.backward()
    model.zero_grad()
    counted.flops = int(counter.get_total_flops())
    return counted


class Count(TorchDispatchMode):
    """Counts FLOPs (multiplications and additions) of matrix products by shape, as FlopCounterMode does."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0  # of everything that is counted
        self.products: Counter[Shape] = Counter()  # of matrix products, by shape

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and count it."""
        result = func(*args, **(kwargs or {}))
        operator = func._overloadpacket
        if operator in flop_registry and (first := _OPERANDS.get(operator.__name__)) is not None:
            flops = int(flop_registry[operator](*args, **(kwargs or {}), out_val=result))
            self.products[_shape(*args[first : first + 2])] += flops
        return result


def _shape(left: torch.Tensor, right: torch.Tensor) -> Shape:
    """Return the shape of the product of two matrices, or of two batches of them."""
    batch = left.shape[0] if left.dim() == 3 else 1
    rows, inner = left.shape[-2:]
    return Shape(batch=int(batch), rows=int(rows), inner=int(inner), columns=int(right.shape[-1]))


def _built(settings: Model) -> torch.nn.Module:
    model = models.build(settings, attention="eager", dropout=False)
    if hasattr(model, "set_experts_implementation"):  # transformers 5 groups experts into an unknown operator
        model.set_experts_implementation("eager")
    return model


def _fake(spec: WorkerSpec, mode: FakeTensorMode) -> torch.nn.Module:
    """The model as shapes; some need values while they are built, and are copied."""
    try:
        with mode:
            return _built(spec.model)
    except RuntimeError:
        _check_size(spec)
    real = _built(spec.model)
    with FakeCopyMode(mode):
        return copy.deepcopy(real)


def _check_size(spec: WorkerSpec) -> None:
    if spec.model.size == "published" and (spec.model.parameters or 0) > MOST_BUILT:
        raise ValueError(f"{spec.model.name} is too large to be counted by more than its shapes")
