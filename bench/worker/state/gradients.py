"""Compares gradients and weights, parameter by parameter, with what plain PyTorch computes in fp32.

Losses of random weights hardly move in a few steps, and a norm over all parameters hides a small one, so
that a backend may lose a part of its gradient, or of its update, and still follow the reference's losses.

How far a right tensor may be off depends on the parameter: the gradient of the bias of an attention's keys,
for one, is rounding and nothing else, and so is how far AdamW moves it. So the same steps are taken a second
time with the samples in reverse order and every weight off by as much as fp32 rounds it: the difference of
the two is the tensor's noise. Where the loss depends on the samples' order they keep it.
"""

import math
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import torch
import torch.distributed
from safetensors import safe_open
from safetensors.torch import save_file

from bench.launch import messages
from bench.launch.messages import BUFFER, GRADIENT, WEIGHT_UPDATE, ExpectedTensor, ExpectedTensorsWritten
from bench.launch.spec import WorkerSpec
from bench.worker import optimizers
from bench.worker.sharding import Batch, gradients_of, trained, trained_by_name
from bench.worker.state import initial_state
from bench.worker.workload import model as models

NamedTensors = Iterable[tuple[str, torch.Tensor]]

ROUNDING = torch.finfo(torch.float32).eps
"""The relative distance of neighbouring fp32 numbers; the second run's weights are moved by this."""

ORDER = 1e-5  # how far rounding may have a loss off if its samples change places, relative to it or to 1

UNUSED = "num_batches_tracked"
"""A batch norm's counter, which none with a momentum reads and ONNX's export drops."""

NOT_ALWAYS_THERE = (BUFFER, WEIGHT_UPDATE)
"""Tensors that one side alone may have: constants, such as a mask that only one version of a model keeps, and
weights without a gradient, which some optimizers let decay."""


class NotComputed(Exception):
    """Why some rank could not compute the expected tensors."""


class TensorReader:
    """Compares tensors with those that `write_expected` has written, as they are handed over."""

    def __init__(self, folder: str, *, rank: int) -> None:
        self._folder = folder
        self._rank = rank
        self.differences: dict[str, float] = {}  # L2 norms, by kind and name; rank 0's only

    def read(self, kind: str, named: NamedTensors) -> None:
        """Compare tensors of a kind; all ranks go through all of them, since each may have to be gathered."""
        named = ((name, tensor) for name, tensor in named if not name.endswith(UNUSED))
        if self._rank == 0:
            self._take(kind, named)
        deque(named, maxlen=0)  # what is left, until all are gathered

    def read_weights(self, named: NamedTensors) -> None:
        """Compare weights after the last step; those of the rank that is farthest from rank 0 count, too."""
        spread = {}

        def with_spread() -> Iterator[tuple[str, torch.Tensor]]:
            for name, tensor in named:
                spread[f"{WEIGHT_UPDATE} {name}"] = spread_over_ranks(tensor)
                yield name, tensor

        self.read(WEIGHT_UPDATE, with_spread())
        for name in spread.keys() & self.differences.keys():
            self.differences[name] += spread[name]

    def _take(self, kind: str, named: NamedTensors) -> None:
        if file_of(self._folder, kind).exists():
            self.differences |= compare(self._folder, kind, named)


class TensorWriter(TensorReader):
    """Writes tensors as the expected ones; `differences` are from nothing: their norms."""

    def _take(self, kind: str, named: NamedTensors) -> None:
        Path(self._folder).mkdir(exist_ok=True)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in named}
        save_file(tensors, file_of(self._folder, kind))
        self.differences |= {f"{kind} {name}": norm(tensor) for name, tensor in tensors.items()}


def write_expected(
    spec: WorkerSpec, steps: Sequence[Sequence[Batch]], *, rank: int, device: torch.device
) -> ExpectedTensorsWritten:
    """Compute what steps of the reference should leave, and how much of it is rounding; rank 0 writes it.

    Where that fails, as without memory for an optimizer's states: the first step's gradients and buffers.
    """
    reason = ""
    for computed in (steps, steps[:1]):
        try:
            expected = _compute(spec, computed, rank=rank, device=device)
            return ExpectedTensorsWritten(expected=expected, absent=reason)
        except NotComputed as failure:
            reason = str(failure)
    return ExpectedTensorsWritten(expected={}, absent=reason)


def _compute(
    spec: WorkerSpec, steps: Sequence[Sequence[Batch]], *, rank: int, device: torch.device
) -> dict[str, ExpectedTensor]:
    if rank == 0:
        shutil.rmtree(spec.expected_tensors, ignore_errors=True)
    writer, moved, disturbed = (
        make(spec.expected_tensors, rank=rank) for make in (TensorWriter, TensorReader, TensorReader)
    )
    model, again = models.build(spec.model, attention="eager", dropout=False), steps
    with fp32_products():
        _begin(model, spec, rank, device)
        train(model, steps, spec, device, writer)
        with suppress(NotComputed):  # the other order says nothing of rounding
            _together(partial(_check_order, model, steps[0][0], device), device)
            again = [[reverse(batch) for batch in step] for step in steps]
        _begin(model, spec, rank, device)
        moved.read(WEIGHT_UPDATE, trained_by_name(model))  # as far as weights are before the first step
        disturb(model.parameters(), seed=spec.seed)
        train(model, again, spec, device, disturbed)
        _together(partial(_check_noise, writer.differences, disturbed.differences), device)
    # Every step rounds a weight, by a quarter of that distance on average: AdamWs differ in how.
    rounded = len(steps) * ROUNDING / 4
    norms = writer.differences | moved.differences
    far = len(steps) * spec.adam.lr
    reach = {f"{WEIGHT_UPDATE} {name}": far * math.sqrt(one.numel()) for name, one in trained_by_name(model)}
    unsure = set(find_unsure(spec.expected_tensors, disturbed.differences)) if rank == 0 else ()
    return {
        name: ExpectedTensor(
            norm=norms[name],
            noise=max(noise, rounded * writer.differences[name] if name.startswith(WEIGHT_UPDATE) else 0.0),
            reach=reach.get(name, 0.0),
            flip=2 * spec.adam.lr if name in unsure else 0.0,
        )
        for name, noise in disturbed.differences.items()
    }


def find_unsure(folder: str, noise: Mapping[str, float]) -> Iterator[str]:
    """The updates of weights with an element whose first gradient is below 20 times the typical rounding."""
    with safe_open(file_of(folder, GRADIENT), framework="pt") as file:
        for name in dict.fromkeys(file.keys()):
            gradient = file.get_tensor(name).abs()
            typical = noise[f"{GRADIENT} {name}"] / math.sqrt(max(1, gradient.numel()))
            if ((gradient > 0) & (gradient < 20 * typical)).any():
                yield f"{WEIGHT_UPDATE} {name}"


def _check_order(model: torch.nn.Module, batch: Batch, device: torch.device) -> None:
    """Raise if the loss is another one with the samples in reverse order, by more than rounding."""
    with torch.no_grad():
        loss, other = (loss_of(model, one, device).item() for one in (batch, reverse(batch)))
    if not math.isclose(loss, other, rel_tol=ORDER, abs_tol=ORDER):
        raise ValueError("the loss depends on the samples' order")


def _check_noise(norms: Mapping[str, float], noise: Mapping[str, float]) -> None:
    """Raise if a tensor is not finite once weights are off by a rounding: such noise would allow anything."""
    for name in noise.keys() & norms.keys():
        if math.isfinite(norms[name]) and not math.isfinite(noise[name]):
            raise ArithmeticError(f"the {name} is not finite if weights are off by a rounding")


def _begin(model: torch.nn.Module, spec: WorkerSpec, rank: int, device: torch.device) -> None:
    initial_state.load(model.cpu(), spec, rank, device)
    _together(lambda: model.to(device), device)


def train(
    model: torch.nn.Module,
    steps: Sequence[Sequence[Batch]],
    spec: WorkerSpec,
    device: torch.device,
    reader: TensorReader,
) -> None:
    """Take steps of plain AdamW, and hand tensors over; of a single step only what the passes leave.

    Not weights that some step has no gradient for, which decay where something makes it zero.
    `NotComputed` on all ranks, if one could not.
    """
    model.zero_grad()
    optimizer = optimizers.build("adamw_forloop", trained(model), spec.adam)
    without: set[str] = set()
    kinds = messages.gradient_kinds(len(steps))
    for number, micro_batches in enumerate(steps, start=1):
        _together(partial(run_pass, model, micro_batches, device), device)
        without |= average(model, device)
        if number in kinds:
            _together(partial(reader.read, kinds[number], gradients_of(model)), device)
        if number == 1:
            buffers = ((name, one.clone()) for name, one in model.named_buffers())
            _together(partial(reader.read, BUFFER, buffers), device)
        if len(steps) == 1:
            return
        _together(optimizer.step, device)
        optimizer.zero_grad()
    weights = (one for one in trained_by_name(model) if one[0] not in without)
    _together(partial(reader.read, WEIGHT_UPDATE, weights), device)


def run_pass(model: torch.nn.Module, micro_batches: Sequence[Batch], device: torch.device) -> None:
    """Leave the mean gradient over micro-batches in the model."""
    for batch in micro_batches:
        (loss_of(model, batch, device) / len(micro_batches)).backward()


def loss_of(model: torch.nn.Module, batch: Batch, device: torch.device) -> torch.Tensor:
    """The loss of a micro-batch."""
    loss: torch.Tensor = model(**{name: value.to(device) for name, value in batch.items()}).loss
    return loss


def average(model: torch.nn.Module, device: torch.device) -> set[str]:
    """Average gradients over the ranks, in place; the names of the parameters for which no rank has one."""
    named = list(trained_by_name(model))
    having = torch.tensor([float(one.grad is not None) for _, one in named], device=device)
    torch.distributed.all_reduce(having)
    without = set()
    for (name, one), ranks in zip(named, having.tolist(), strict=True):
        if not ranks:
            without.add(name)
            continue
        one.grad = torch.zeros_like(one) if one.grad is None else one.grad
        torch.distributed.all_reduce(one.grad)
        one.grad /= torch.distributed.get_world_size()
    return without


def spread_over_ranks(tensor: torch.Tensor) -> float:
    """The largest L2 distance of any rank's copy of this tensor from rank 0's."""
    if torch.distributed.get_world_size() == 1:
        return 0.0
    difference = tensor.detach().clone(memory_format=torch.contiguous_format)
    torch.distributed.broadcast(difference, src=0)
    farthest = torch.linalg.vector_norm(difference.sub_(tensor.detach()).float())
    # A maximum over ranks would leave out what is not a number.
    farthest = torch.nan_to_num(farthest, nan=torch.finfo(torch.float32).max)
    torch.distributed.all_reduce(farthest, op=torch.distributed.ReduceOp.MAX)
    return farthest.item()


def _together(compute: Callable[[], object], device: torch.device) -> None:
    """Compute, and wait for the other ranks; raise `NotComputed` on all of them if one could not."""
    failure = ""
    try:
        compute()
    # Such as too little memory; errors of the model itself are raised by its backends, too.
    except Exception as error:
        failure = f"{type(error).__name__}: {error}".splitlines()[0]
    failed = torch.tensor(float(bool(failure)), device=device)
    torch.distributed.all_reduce(failed)
    if failed.item():
        raise NotComputed(failure or "another rank could not compute it")


@contextmanager
def fp32_products() -> Iterator[None]:
    """While it is open, GPUs do not round the factors of matrix products to TF32."""
    switches = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [switch.allow_tf32 for switch in switches]
    for switch in switches:
        switch.allow_tf32 = False
    try:
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.allow_tf32 = value


def disturb(parameters: Iterable[torch.nn.Parameter], *, seed: int) -> None:
    """Move every weight by up to the distance of neighbouring fp32 numbers, on all ranks alike."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in parameters:
            signs = torch.rand(parameter.shape, generator=random) * 2 - 1
            parameter.mul_((1 + ROUNDING * signs).to(parameter))


def reverse(batch: Batch) -> Batch:
    """Put the samples in the opposite order, so that sums over them round differently."""
    return {name: value.flip(0) for name, value in batch.items()}


def file_of(folder: str, kind: str) -> Path:
    """Where `write_expected` writes the tensors of a kind."""
    return Path(folder) / f"{kind}.safetensors"


def compare(folder: str, kind: str, named: NamedTensors) -> Iterator[tuple[str, float]]:
    """How far a backend's tensors are from the expected ones of the same names, by their kind and name."""
    with safe_open(file_of(folder, kind), framework="pt") as file:
        missing = dict.fromkeys(file.keys())
        for name, tensor in named:
            if name in missing:
                del missing[name]
                yield f"{kind} {name}", distance(tensor, file.get_tensor(name))
            elif kind not in NOT_ALWAYS_THERE:
                yield f"{kind} {name}", norm(tensor)
        for name in missing:
            if kind != BUFFER:
                yield f"{kind} {name}", norm(file.get_tensor(name))


def distance(tensor: torch.Tensor, expected: torch.Tensor) -> float:
    """The L2 norm of the difference; infinite if one is not finite, or the shapes differ."""
    if tensor.shape != expected.shape:
        return math.inf
    parts = zip(_parts(tensor), _parts(expected), strict=True)
    difference = _norm_of_parts(one - other for one, other in parts)
    return math.inf if math.isnan(difference) else difference


def norm(tensor: torch.Tensor) -> float:
    """The L2 norm over all elements."""
    return _norm_of_parts(_parts(tensor))


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The elements in fp64, in parts that stay in a core's cache."""
    return (part.double() for part in tensor.detach().cpu().flatten().split(1 << 16))


def _norm_of_parts(parts: Iterable[torch.Tensor]) -> float:
    return math.sqrt(sum(part.dot(part).item() for part in parts))
