"""Times the parts of a step, without communication: they are what a prediction for more ranks starts from.

Ranks train apart from each other meanwhile, so that this is the last that a group does. Steps with
communication come in turn with the others: what a prediction from the parts should come to.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch

from bench.errors import LaunchFailed
from bench.results.step_parts import (
    BACKWARD,
    COPIES,
    FORWARD,
    TOGETHER,
    UPDATE,
    WHOLE,
    ReadyGradients,
    TimedPart,
)
from bench.worker.rank.training import Training
from bench.worker.sharding import Batch, ddp, trained

APART = ("ddp",)  # shardings under which a rank can train apart from the others, and updates all parameters
WARM_UPS = 2  # steps before any is timed; the first of them lays the gradients where they will stay
KINDS = 3  # how many kinds of steps take turns: together, apart, and apart in parts
MOST_POINTS = 24  # at which `ReadyGradients` are kept


class _Clock:
    """Seconds and processor seconds of each part, repetition by repetition."""

    def __init__(self, training: Training) -> None:
        self._synchronize = training.synchronize
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.cpu_seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        """Time what is done within it."""
        self._synchronize()
        cpu, start = time.process_time(), time.perf_counter()
        yield
        self._synchronize()
        self.seconds[part].append(time.perf_counter() - start)
        self.cpu_seconds[part] += time.process_time() - cpu

    def parts(self) -> list[TimedPart]:
        """All that were timed."""
        return [
            TimedPart(part=part, seconds=tuple(each), cpu_seconds=self.cpu_seconds[part] / len(each))
            for part, each in self.seconds.items()
        ]


def time_parts(training: Training, times: int) -> tuple[list[TimedPart], list[ReadyGradients]]:
    """The parts of steps, of which there are so many of each kind, after `WARM_UPS`.

    Of every three steps one is timed as ranks take it together, one as a whole of ranks apart, and one in
    parts, whose clocks wait for the device. `unsupported` if the sharding's ranks cannot train apart.
    """
    sharding = training.sharding
    if training.spec.sharding not in APART or not isinstance(sharding, ddp.Sharding):
        raise LaunchFailed(
            "unsupported",
            f"sharding={training.spec.sharding} has no step without communication whose parts could be timed",
        )
    clock = _Clock(training)
    ready: list[ReadyGradients] = []
    steps = [training.on_device(batch) for batch in training.steps(WARM_UPS + KINDS * times)]
    for number, micro_batches in enumerate(steps, start=-WARM_UPS):
        training.barrier()
        if number >= 0 and number % KINDS == 0:
            with clock.timing(TOGETHER):
                sharding.step(micro_batches)
            continue
        with sharding.without_sync():
            if number < 0:
                _step(sharding, micro_batches)
            elif number % KINDS == 1:
                with clock.timing(WHOLE):
                    _step(sharding, micro_batches)
            else:
                ready = _step_in_parts(sharding, micro_batches, training.device, clock)
    return clock.parts(), ready


def _step(sharding: ddp.Sharding, micro_batches: list[Batch]) -> None:
    for batch in micro_batches:
        sharding.backward(sharding.forward(batch))
    sharding.update()


def _step_in_parts(
    sharding: ddp.Sharding, micro_batches: list[Batch], device: torch.device, clock: _Clock
) -> list[ReadyGradients]:
    for batch in micro_batches:
        with clock.timing(FORWARD):
            loss = sharding.forward(batch)
        watch = _Watch(device)
        with watch.watching(trained(sharding.model)), clock.timing(BACKWARD):
            watch.start()
            sharding.backward(loss)
    _copy_gradients(sharding, clock)
    with clock.timing(UPDATE):
        sharding.update()
    return watch.summary(clock.seconds[BACKWARD][-1])


def _copy_gradients(sharding: ddp.Sharding, clock: _Clock) -> None:
    """Into one flat tensor and back, twice: the first time the tensor's memory is new."""
    gradients = [parameter.grad for parameter in trained(sharding.model) if parameter.grad is not None]
    flat = torch.zeros(sum(one.numel() for one in gradients), device=gradients[0].device)
    parts = flat.split([one.numel() for one in gradients])

    def copy() -> None:
        for part, gradient in zip(parts, gradients, strict=True):
            part.copy_(gradient.reshape(-1))
        for part, gradient in zip(parts, gradients, strict=True):
            gradient.copy_(part.view_as(gradient))

    copy()
    with clock.timing(COPIES):
        copy()


class _Watch:
    """Notes when each gradient of a backward pass is there; on CUDA by events, which cost it nothing."""

    def __init__(self, device: torch.device) -> None:
        self._on_cuda = device.type == "cuda"
        self._ready: list[tuple[int, float | torch.cuda.Event]] = []
        self._start: float | torch.cuda.Event = 0.0

    @contextmanager
    def watching(self, parameters: Iterable[torch.nn.Parameter]) -> Iterator[None]:
        """Within it gradients are noted."""
        with ExitStack() as hooks:
            for parameter in parameters:
                hooks.enter_context(parameter.register_post_accumulate_grad_hook(self._note))
            yield

    def start(self) -> None:
        """The backward pass begins."""
        self._start = self._now()

    def summary(self, seconds: float) -> list[ReadyGradients]:
        """What was there when in a backward pass of so many seconds, at `MOST_POINTS` points at most."""
        points, elements = [], 0
        for count, moment in self._ready:
            elements += count
            since = (
                moment - self._start
                if isinstance(moment, float) and isinstance(self._start, float)
                else self._start.elapsed_time(moment) / 1e3  # type: ignore[union-attr]
            )
            points.append(ReadyGradients(elements=elements, share=min(1.0, since / seconds)))
        each = -(-len(points) // MOST_POINTS) or 1
        return [points[min(last, len(points) - 1)] for last in range(each - 1, len(points) + each - 1, each)]

    def _note(self, parameter: torch.Tensor) -> None:
        self._ready.append((parameter.numel(), self._now()))

    def _now(self) -> "float | torch.cuda.Event":
        if not self._on_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
