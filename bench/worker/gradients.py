"""Compares the gradient of the first step, parameter by parameter, with what plain PyTorch computes in fp32.

Losses of random weights hardly move in a few steps, and a norm over all parameters hides a small one, so
that a backend may lose a part of its gradient and still follow the reference's losses.

How far a right gradient may be off depends on the parameter: that of the bias of an attention's keys, for
one, is rounding and nothing else. So the same gradient is computed a second time with the samples in reverse
order and every weight off by as much as fp32 rounds it: the difference of the two is the parameter's noise.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed
from safetensors.torch import save_file

from bench.launch.messages import BUFFER, GRADIENT, TensorDifference
from bench.launch.spec import WorkerSpec
from bench.worker import initial_state
from bench.worker.sharding import trained_by_name
from bench.worker.tensor_differences import Array, compare, distance
from bench.worker.workload import model as models
from bench.worker.workload.feed import Batch

NamedTensors = Iterable[tuple[str, torch.Tensor]]

ROUNDING = torch.finfo(torch.float32).eps
"""The relative distance of neighbouring fp32 numbers, by which the weights of the second pass are off."""

UNUSED = "num_batches_tracked"
"""A batch norm's counter, which none with a momentum reads and ONNX's export drops."""


@dataclass(frozen=True)
class Pass:
    """What one forward and backward pass over a step's micro-batches leaves.

    Attributes:
        gradients: by parameter, fp32, on the device.
        buffers: by name, on this rank.
    """

    gradients: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]


def write_expected(
    spec: WorkerSpec, micro_batches: Sequence[Batch], *, rank: int, device: torch.device
) -> str:
    """Compute what the first step's gradient should be, and how much of it is rounding; rank 0 writes both.

    The model is the reference's as published: eager attention, fp32, no engine, no sharding, no dropout. All
    ranks take part, each with its own micro-batches.

    Returns:
        Why it could not be computed on some rank, or nothing.
    """
    model = models.build(spec.model, attention="eager", dropout=False)
    initial_state.load(model, spec, rank, device)
    failure = ""
    passes: tuple[Pass, Pass] | None = None
    try:
        with fp32_products():
            passes = run_passes(model.to(device), micro_batches, seed=spec.seed, device=device)
    # Such as too little memory; whatever is wrong with the model itself, its backends meet, too.
    except Exception as error:
        failure = f"{type(error).__name__}: {error}".splitlines()[0]
    del model
    failed = torch.tensor(float(bool(failure)), device=device)
    torch.distributed.all_reduce(failed)
    if passes is None or failed.item():
        return failure or "another rank could not compute it"
    for one in passes:
        average(one.gradients.values())
    if rank == 0:
        _write(spec.expected_gradients, *passes)
    return ""


def run_passes(
    model: torch.nn.Module, micro_batches: Sequence[Batch], *, seed: int, device: torch.device
) -> tuple[Pass, Pass]:
    """One pass as it is, and one in which everything is rounded otherwise."""
    buffers = {name: value.detach().clone() for name, value in model.named_buffers()}
    exact = run_pass(model, micro_batches, device)
    with torch.no_grad():
        for name, value in model.named_buffers():
            value.copy_(buffers[name])
        disturb(model.parameters(), seed=seed)
    return exact, run_pass(model, [reverse(batch) for batch in micro_batches], device)


def run_pass(model: torch.nn.Module, micro_batches: Sequence[Batch], device: torch.device) -> Pass:
    """The mean gradient over micro-batches, and the buffers afterwards; the model keeps no gradient."""
    for batch in micro_batches:
        loss = model(**{name: value.to(device) for name, value in batch.items()}).loss
        (loss / len(micro_batches)).backward()
    gradients = {}
    for name, parameter in trained_by_name(model):
        gradients[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parameter.grad = None
    buffers = {name: value.detach().clone() for name, value in model.named_buffers()}
    return Pass(gradients=gradients, buffers=buffers)


def average(gradients: Iterable[torch.Tensor]) -> None:
    """Over the ranks, in place."""
    for gradient in gradients:
        torch.distributed.all_reduce(gradient)
        gradient /= torch.distributed.get_world_size()


@contextmanager
def fp32_products() -> Iterator[None]:
    """Within it GPUs do not round the factors of matrix products to TF32."""
    switches = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [switch.allow_tf32 for switch in switches]
    for switch in switches:
        switch.allow_tf32 = False
    try:
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.allow_tf32 = value


def _write(path: str, exact: Pass, disturbed: Pass) -> None:
    tensors, noise = {}, {}
    for kind, ours, others in (
        (GRADIENT, exact.gradients, disturbed.gradients),
        (BUFFER, exact.buffers, disturbed.buffers),
    ):
        for name, tensor in ours.items():
            if name.endswith(UNUSED):
                continue
            tensors[f"{kind} {name}"] = tensor.contiguous().cpu()
            noise[f"{kind} {name}"] = distance(_array(others[name]), _array(tensor))
    save_file(tensors, path, metadata={"noise": json.dumps(noise)})


def disturb(parameters: Iterable[torch.Tensor], *, seed: int) -> None:
    """Move every weight by up to the distance of neighbouring fp32 numbers, on all ranks alike."""
    random = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        signs = torch.rand(parameter.shape, generator=random) * 2 - 1
        parameter.mul_((1 + ROUNDING * signs).to(parameter))


def reverse(batch: Batch) -> Batch:
    """The same samples in the opposite order, so that sums over them round differently."""
    return {name: value.flip(0) for name, value in batch.items()}


class GradientReader:
    """Compares gradients as a step hands them over; only rank 0 keeps what it finds.

    Args:
        expected: the file that `write_expected` wrote.
        buffers: of the model, as they are.
        rank: of this process.

    Attributes:
        differences: of the last step that was read.
    """

    def __init__(self, expected: str, buffers: Callable[[], NamedTensors], *, rank: int) -> None:
        self._path = Path(expected)
        self._buffers = buffers
        self._rank = rank
        self.differences: list[TensorDifference] = []

    def read(self, gradients: NamedTensors) -> None:
        """Compare a step's gradients, averaged over the ranks, and the buffers that its forward pass left.

        All ranks go through `gradients`, since each of them may have to be gathered.
        """
        named = _labelled(gradients, self._buffers())
        if self._rank != 0:
            for _ in named:
                pass
            return
        self.differences = list(compare(self._path, ((name, _array(tensor)) for name, tensor in named)))


def _labelled(gradients: NamedTensors, buffers: NamedTensors) -> Iterator[tuple[str, torch.Tensor]]:
    for name, gradient in gradients:
        yield f"{GRADIENT} {name}", gradient
    for name, buffer in buffers:
        if not name.endswith(UNUSED):
            yield f"{BUFFER} {name}", buffer


def _array(tensor: torch.Tensor) -> Array:
    """A copy on the host, in fp64."""
    array: Array = tensor.detach().cpu().double().numpy()
    return array
