"""One rank: does what the coordinator asks, one request after the other, and sleeps in a read between."""

import gc
import itertools
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench.errors import LaunchFailed
from bench.launch import messages
from bench.launch.channel import Channel, Closed
from bench.launch.spec import WorkerSpec
from bench.machine.telemetry.gpu_meter import GpuMeter
from bench.machine.telemetry.host_memory import limit_to_available
from bench.machine.telemetry.rank_meter import RankMeter
from bench.worker.agent import garbage_collector_off
from bench.worker.rank.error_words import in_a_line, status_of

if TYPE_CHECKING:
    from bench.worker.rank.training import Training


PATIENCE = timedelta(hours=2)
"""NCCL's time limit, instead of 10 minutes: drivers may compile. The coordinator ends ranks that hang."""


class Rank:
    """The method named like the tag of one of `bench.launch.messages` answers it; `build` imports torch."""

    training: "Training"

    imported = 0.0  # seconds of imports that were made for this rank before it was forked

    takes_what_is_left = False  # of the machine's memory, its share and no more
    share: float | None = None  # GiB of that, beside what it has

    def __init__(
        self, spec: WorkerSpec, *, rank: int, local_rank: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.spec = spec
        self.clock = clock
        self.rank = rank
        self.local_rank = local_rank
        self.steps_taken = 0  # in blocks, the first step and warm-up included
        uuids = spec.device_uuids
        self.meter = RankMeter(GpuMeter(uuids[local_rank] if uuids else None))

    def answer(self, request: messages.Request[messages.A]) -> messages.A:
        """Do what the coordinator asks."""
        if self.takes_what_is_left:
            groups = self.spec.groups if isinstance(request, messages.AT_ONCE) else 1
            self.share = limit_to_available(len(self.spec.cores) * groups)
        method = getattr(self, request.name, None)
        if request.answered_by:
            method = partial(getattr(import_module(request.answered_by), request.name), self)
        assert method is not None, f"a method or a study answers {request.name}"
        answer: messages.A = method(**msgspec.structs.asdict(request))
        return answer

    def build(self) -> messages.Built:
        """Set up everything before the first step, the imports included; torchrun's own start is not."""
        self.meter.prepare(new_peak=False)
        self.meter.start()
        start = self.clock()
        with garbage_collector_off():
            import torch.distributed

            from bench.worker.rank.training import Training, device_of

            device = device_of(self.spec, self.local_rank)
            if device.type == "cuda":
                torch.distributed.distributed_c10d.default_pg_nccl_timeout = PATIENCE  # of DeepSpeed's groups
                # Bound to the device, NCCL connects now: its buffers and its time are the set-up's.
                torch.distributed.init_process_group("nccl", device_id=device, timeout=PATIENCE)
            else:
                torch.distributed.init_process_group("gloo")
            self.training = Training(self.spec, rank=self.rank, device=device)
        return self._built(start)

    def _built(self, start: float) -> messages.Built:
        training = self.training
        training.synchronize()
        training.barrier()
        figures = self._figures(self.clock() - start + self.imported)
        keep_from_the_collector()
        imports = training.imported_at - start + self.imported
        return messages.Built(**figures, **training.facts, import_seconds=imports)

    def first_step(self) -> messages.FirstStepTaken:
        """The first step: export, compilation and allocation happen here."""
        drawn = self.training.random_states()
        block = self.block(steps=1)
        is_random = self.training.random_states() != drawn
        if block.skipped_steps:  # of fp16; what is read below exists once the weights have been updated
            for batch in self.training.steps(1):
                self.training.step_until_applied(batch)
                self.steps_taken += 1
        keep_from_the_collector()
        self.training.free_cached()
        return messages.FirstStepTaken(
            **msgspec.structs.asdict(block),
            is_random=is_random,
            proof=self.training.proof(),
            weights_bytes=self.training.weights_bytes(),
            optimizer_state_bytes=self.training.optimizer_state_bytes(),
        )

    def block(self, steps: int, untimed: int = 0, times: int = 1) -> messages.BlockTimed:
        """Time `steps` steps, what a loader does in them included, between synchronisations."""
        training = self.training
        first, ahead = training.steps(untimed), training.steps(steps)
        if times > 1:
            first, ahead = enlarge(first, times), enlarge(ahead, times)
        sizes: list[tuple[int, int | None]] = []  # of every micro-batch that is trained and timed
        noted = self._note_sizes(ahead, sizes)
        batches = [*noted] if isinstance(ahead, list) else noted  # a loader's are noted as it makes them
        losses = training.room_for_losses(untimed + steps)
        gc.collect()
        for number, batch in enumerate(first):
            losses[number] = training.step(batch)
        if untimed:
            training.synchronize()  # their energy is not the block's
        self.meter.prepare()
        training.reset_peaks()
        training.loss_scaling()  # what was skipped before the block is not the block's
        retries = training.allocator_retries()
        training.synchronize()
        training.barrier()
        self.meter.start()
        start = self.clock()
        for number, batch in enumerate(batches, start=untimed):
            losses[number] = training.step(batch)
        training.synchronize()
        seconds = self.clock() - start
        self.steps_taken += untimed + steps
        samples, tokens = zip(*sizes, strict=True)
        return messages.BlockTimed(
            **self._figures(seconds),
            losses=losses.tolist(),
            micro_batches=len(sizes),
            samples=sum(samples),
            tokens=None if None in tokens else sum(tokens),
            loader_seconds=training.feed.waited(),
            allocator_retries=None if retries is None else (training.allocator_retries() or 0) - retries,
            **training.loss_scaling(),
        )

    def _note_sizes(self, steps: Iterable[Any], sizes: list[tuple[int, int | None]]) -> Iterator[Any]:
        for micro_batches in steps:
            sizes.extend(map(size_of, micro_batches))
            yield micro_batches

    def _figures(self, seconds: float) -> dict[str, Any]:
        figures = self.meter.stop()
        allocated, reserved = self.training.torch_peaks()
        return {
            "seconds": seconds,
            **figures,
            "torch_peak_allocated_bytes": allocated,
            "torch_peak_reserved_bytes": reserved,
            "absent": self.meter.absent | self.training.absent,
        }

    def use_batches(self, numbers: list[list[int]]) -> messages.Done:
        """Cycle through these micro-batches from now on."""
        self.training.feed.repeat(numbers[self.rank % len(numbers)])
        return messages.Done()

    def compute_losses(
        self, numbers: list[list[int]], weights: str = "", saves: bool = False
    ) -> messages.LossesComputed:
        """The losses of these micro-batches of this rank; a failure says with which of them it happened."""
        losses, mine = [], numbers[self.rank]
        if weights:
            self.training.use_without_dropout(Path(weights), saves=saves)
        for number, parts in zip(mine, self.training.feed.make(mine), strict=True):
            with self.naming_failure(f"batch {number} of rank {self.rank}"):
                losses.append(self.training.compute_loss(parts))
        return messages.LossesComputed(losses=losses)

    def write_expected_tensors(
        self, steps: int, distinct: int = 0, batches: int = 0
    ) -> messages.ExpectedTensorsWritten:
        """Train plain PyTorch in fp32 beside the backend's model; afterwards the batches begin anew."""
        from bench.worker.state.gradients import write_expected
        from bench.worker.workload.choosing import choose_compared, choose_different

        training, of_a_step = self.training, self.spec.grad_accum
        numbers: list[int] = []
        trained: list[int] = []
        if distinct:
            numbers = choose_compared(training.feed, batches)
            trained = choose_different(training.feed, numbers, first=of_a_step, count=distinct * of_a_step)
            training.feed.repeat(trained)
        taken = list(training.steps(steps))
        written = write_expected(self.spec, taken, rank=self.rank, device=training.device)
        gc.collect()
        training.free_cached()
        return msgspec.structs.replace(written, batches=numbers, trained=trained)

    def parity(self, steps: int, compared: bool = False) -> messages.ParityTrained:
        """Take `steps` steps, untimed, and compare what they leave with the expected tensors, if any.

        Steps of fp16 that are skipped while the loss's scale is too large are taken again: backends may
        overflow at different scales, since they round differently, and train alike once they do not.
        """
        from bench.worker.state.gradients import TensorReader

        sharding = self.training.sharding
        sharding.watches_gradient = True
        reader = TensorReader(self.spec.expected_tensors, rank=self.rank)
        kinds = messages.gradient_kinds(steps) if compared else {}
        losses, norms, ends = [], [], [self.clock()]
        for number, batch in enumerate(self.training.steps(steps), start=1):
            sharding.gradient_reader = partial(reader.read, kinds[number]) if number in kinds else None
            # A failure in the first step, such as of an export, is not due to its batch.
            with nullcontext() if number == 1 else self.naming_failure(f"step {number}"):
                losses.append(self.training.step_until_applied(batch).item())
            norms.append(sharding.gradient_norm)
            sharding.gradient_reader = None
            if number == 1 and compared:
                reader.read(messages.BUFFER, self.training.named_buffers())
            ends.append(self.clock())
        if compared:
            reader.read_weights(sharding.weights())
        return messages.ParityTrained(
            losses=losses,
            gradient_norms=norms,
            seconds=[end - start for start, end in itertools.pairwise(ends)],
            differences=reader.differences,
            proof=self.training.proof(),
        )

    @contextmanager
    def naming_failure(self, what: str) -> Iterator[None]:
        """Let the message of an exception begin with what failed."""
        try:
            yield
        except Exception as error:
            message = f"{what}: {in_a_line(error)}"
            raise LaunchFailed(self.status_of(error), message, traceback.format_exc()) from error

    def status_of(self, error: Exception) -> str:
        """The status that an exception of this rank means."""
        training = getattr(self, "training", None)
        return status_of(error) or (training and training.engine.status_of(error)) or "crashed"


def size_of(micro_batch: Mapping[str, Any]) -> tuple[int, int | None]:
    """Samples and tokens of a micro-batch, padding included."""
    shapes = {name: tensor.shape for name, tensor in micro_batch.items()}
    samples, ids = next(iter(shapes.values()))[0], shapes.get("input_ids")
    return samples, ids[0] * ids[-1] if ids and len(ids) > 1 else None


def enlarge(steps: Iterable[Any], times: int) -> list[Any]:
    """The micro-batches of steps with every sample repeated `times` times: pinned torch tensors."""

    def repeat(batch: Mapping[str, Any]) -> dict[str, Any]:
        return {name: one.repeat_interleave(times, dim=0).pin_memory() for name, one in batch.items()}

    return [[repeat(batch) for batch in step] for step in steps]


def keep_from_the_collector() -> None:
    """Spare what lives now further searches by the garbage collector, which would take 0.4 s each."""
    gc.collect()
    gc.freeze()


def serve(channel: Channel, rank: Rank) -> int:
    """Answer requests until the coordinator says `end` or ends itself; the exit status."""
    while True:
        answer: messages.Answer
        try:
            request = channel.receive(messages.decoder_of(messages.Request))
            if isinstance(request, messages.End):
                return 0
            answer = rank.answer(request)
        except Closed:
            return 1
        except Exception as error:
            traceback.print_exc()
            status, message = rank.status_of(error), in_a_line(error)
            if status == "oom" and rank.share is not None:
                message = f"a rank may take {rank.share:.1f} GiB of the memory that was left: {message}"
            answer = messages.Failed(status=status, message=message, details=traceback.format_exc())
        try:
            channel.send(answer)
        except Closed:
            return 1
        if isinstance(answer, messages.Failed):
            return 1
