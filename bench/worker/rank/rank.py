"""One rank: does what the coordinator asks, one request after the other, and sleeps in a read between."""

import gc
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from bench.errors import LONGEST_MESSAGE, LaunchFailed
from bench.launch.channel import Channel, Closed
from bench.launch.fate import last_error, tells_of_memory
from bench.launch.messages import (
    REQUESTS,
    Answer,
    AnyRequest,
    BlockTimed,
    Build,
    Built,
    CheckpointLoaded,
    CheckpointSaved,
    CollectivesCounted,
    CollectivesTimed,
    CountCollectives,
    CountFlops,
    Done,
    End,
    Evaluate,
    Evaluated,
    ExpectedTensorsWritten,
    ExportModel,
    Failed,
    FinishProfile,
    FirstStepTaken,
    FlopsCounted,
    LoadCheckpoint,
    ModelExported,
    ParityTrained,
    PartsTimed,
    ProductsTimed,
    ProfileSteps,
    RoundProfiled,
    SaveCheckpoint,
    StepsProfiled,
    TakeFirstStep,
    TimeBlock,
    TimeCollectives,
    TimeParts,
    TimeProducts,
    TrainForParity,
    UseFirstBatches,
    WriteExpectedTensors,
)
from bench.launch.spec import WorkerSpec
from bench.machine.packages import imported_packages
from bench.machine.telemetry.gpu_meter import GpuMeter
from bench.machine.telemetry.rank_meter import RankMeter
from bench.results.collectives import Collective
from bench.results.records import Shape
from bench.worker.state import checkpoint_files


class Training(Protocol):
    """What a rank needs of a training, whatever it trains with: `bench.worker.rank.training.Training` is one.

    Attributes:
        imported_at: what `time.perf_counter` said when all libraries were imported, before there was a model.
        loaded_bytes: of the files that it starts from.
        absent: why a figure of `torch_peaks` is None, by its name.
    """

    imported_at: float
    host_runtime_bytes: int | None
    loaded_bytes: int
    parameters: int
    trainable_parameters: int

    @property
    def absent(self) -> dict[str, str]:
        """See above."""

    @property
    def feed(self) -> Any:
        """Where batches come from; `bench.worker.workload.feed.Feed` is one."""

    @property
    def engine(self) -> Any:
        """What executes; it has `library` and `status_of` of `bench.worker.engines.Engine`."""

    def steps(self, count: int) -> Iterable[Any]:
        """The micro-batches of the next `count` steps."""

    def step(self, micro_batches: Any) -> Any:
        """One optimizer step; its mean loss."""

    def step_until_applied(self, micro_batches: Any) -> Any:
        """A step that changes the weights."""

    def use_first_batches(self, count: int) -> None:
        """From now on cycle through the first `count` micro-batches only."""

    def room_for_losses(self, steps: int) -> Any:
        """Where the losses of `steps` steps go, shape (steps,)."""

    def synchronize(self) -> None:
        """Wait until the device has done everything it was given."""

    def barrier(self) -> None:
        """Wait until every rank is here."""

    def reset_peaks(self) -> None:
        """Start torch's peak counters anew."""

    def free_cached(self) -> None:
        """Release what torch's caching allocator keeps unused."""

    def allocator_retries(self) -> int | None:
        """How often torch's allocator freed all it kept; None where there is none."""

    def torch_peaks(self) -> tuple[int | None, int | None]:
        """Peak allocated and reserved bytes of torch's caching allocator; None where there is none."""

    def loss_scaling(self) -> dict[str, Any]:
        """The loss's scale, and how many steps were skipped since this was asked before."""

    def proof(self) -> dict[str, Any]:
        """What really ran, after the first step."""

    def weights_bytes(self) -> int:
        """Bytes of weights on this rank."""

    def optimizer_state_bytes(self) -> int:
        """Bytes of optimizer state on this rank."""

    def save_state(self, folder: Path) -> None:
        """Write this rank's part of a checkpoint."""

    def load_state(self, folder: Path) -> None:
        """Take weights, optimizer's state and all else from a checkpoint."""


class Rank(ABC):
    """Answers the requests of `bench.launch.messages`, each by a method; imports no framework.

    Args:
        spec: what is trained, and how.
        rank: among all ranks of the group.
        local_rank: among those on this machine.
        clock: seconds; tests give their own.

    Attributes:
        steps_taken: optimizer steps in blocks, the first step and warm-up included.
    """

    training: Training

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        rank: int,
        local_rank: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.spec = spec
        self.clock = clock
        self.rank = rank
        self.local_rank = local_rank
        self.steps_taken = 0
        uuids = spec.device_uuids
        self.meter = RankMeter(GpuMeter(uuids[local_rank] if uuids else None))

    def answer(self, request: AnyRequest) -> Answer:
        """Do what the coordinator asks."""
        match request:
            case Build():
                return self.build()
            case TakeFirstStep():
                return self.first_step()
            case TimeBlock(steps=steps):
                return self.block(steps)
            case UseFirstBatches(count=count):
                return self.use_first_batches(count)
            case WriteExpectedTensors(steps=steps):
                return self.write_expected_tensors(steps)
            case TrainForParity(steps=steps, compared_steps=compared_steps):
                return self.train_for_parity(steps, compared_steps=compared_steps)
            case CountFlops():
                return self.count_flops()
            case TimeProducts(shapes=shapes):
                return self.time_products(shapes)
            case ExportModel(folder=folder):
                return self.export_model(Path(folder))
            case SaveCheckpoint(folder=folder, steps=steps):
                return self.save_checkpoint(Path(folder), steps)
            case LoadCheckpoint(folder=folder):
                return self.load_checkpoint(Path(folder))
            case Evaluate():
                return self.evaluate()
            case CountCollectives():
                return self.count_collectives()
            case TimeCollectives(collectives=collectives):
                return self.time_collectives(collectives)
            case TimeParts(times=times):
                return self.time_parts(times)
            case ProfileSteps(steps=steps, counted=counted):
                return self.profile_steps(steps, counted=counted)
            case FinishProfile():
                return self.finish_profile()
            case End():
                raise AssertionError("`serve` ends the rank")

    @abstractmethod
    def build(self) -> Built:
        """Set up everything before the first step, the imports included; torchrun's own start is not."""

    @abstractmethod
    def close(self) -> None:
        """Remove what this rank alone has on the disk, at its end."""

    def _built(self, start: float) -> Built:
        """What is there once everything is set up, since the clock said `start`."""
        training = self.training
        training.synchronize()
        training.barrier()
        seconds = self.clock() - start
        return Built(
            **self._figures(seconds),
            import_seconds=training.imported_at - start,
            loaded_bytes=training.loaded_bytes,
            parameters=training.parameters,
            trainable_parameters=training.trainable_parameters,
            padding_share=training.feed.padding_share,
            host_runtime_bytes=training.host_runtime_bytes,
            library=training.engine.library,
        )

    def first_step(self) -> FirstStepTaken:
        """The first step: export, compilation and allocation happen here."""
        block = self.block(steps=1)
        if block.skipped_steps:  # of fp16; what is read below exists once the weights have been updated
            for batch in self.training.steps(1):
                self.training.step_until_applied(batch)
                self.steps_taken += 1
        # What lives now lives on; kept out of the collector's sight, it need not be searched at each block.
        gc.collect()
        gc.freeze()
        self.training.free_cached()
        return FirstStepTaken(
            **msgspec.structs.asdict(block),
            proof=self.training.proof(),
            weights_bytes=self.training.weights_bytes(),
            optimizer_state_bytes=self.training.optimizer_state_bytes(),
            packages=imported_packages(),
        )

    def block(self, steps: int) -> BlockTimed:
        """Time `steps` optimizer steps between two synchronisations.

        Nothing else is inside, but for what a dataset's loader does at every step.
        """
        training = self.training
        batches = training.steps(steps)
        losses = training.room_for_losses(steps)
        gc.collect()
        self.meter.prepare()
        training.reset_peaks()
        training.loss_scaling()  # what was skipped before the block is not the block's
        retries = training.allocator_retries()
        training.synchronize()
        training.barrier()
        self.meter.start()
        start = self.clock()
        for number, batch in enumerate(batches):
            losses[number] = training.step(batch)
        training.synchronize()
        seconds = self.clock() - start
        self.steps_taken += steps
        return BlockTimed(
            **self._figures(seconds),
            losses=losses.tolist(),
            loader_seconds=training.feed.waited(),
            allocator_retries=None if retries is None else (training.allocator_retries() or 0) - retries,
            **training.loss_scaling(),
        )

    def _figures(self, seconds: float) -> dict[str, Any]:
        """The fields of `PhaseFigures`."""
        figures = self.meter.stop()
        allocated, reserved = self.training.torch_peaks()
        return {
            "seconds": seconds,
            **figures,
            "torch_peak_allocated_bytes": allocated,
            "torch_peak_reserved_bytes": reserved,
            "absent": self.meter.absent | self.training.absent,
        }

    @abstractmethod
    def write_expected_tensors(self, steps: int) -> ExpectedTensorsWritten:
        """Train plain PyTorch in fp32 beside what is there; afterwards the batches begin anew."""

    @abstractmethod
    def train_for_parity(self, steps: int, *, compared_steps: int = 0) -> ParityTrained:
        """Take `steps` steps, untimed; the loss and the gradient's norm of each, and what really ran.

        What the first step and the last one leave is compared with what is expected, if that is there.
        """

    @abstractmethod
    def count_flops(self) -> FlopsCounted:
        """The work of a step; what fails is only absent."""

    @abstractmethod
    def time_products(self, shapes: list[Shape]) -> ProductsTimed:
        """Matrix products by this rank's engine, while all ranks multiply; what fails is only absent."""

    @abstractmethod
    def export_model(self, folder: Path) -> ModelExported:
        """Export what was trained, beside its inputs and outputs; rank 0 alone."""

    @abstractmethod
    def evaluate(self) -> Evaluated:
        """The loss on this rank's part of the held-out data; training is as it was before."""

    @abstractmethod
    def count_collectives(self) -> CollectivesCounted:
        """Take a step, and note what it asks the communication library for."""

    @abstractmethod
    def time_collectives(self, collectives: list[Collective]) -> CollectivesTimed:
        """Do these some times, while all ranks do nothing else."""

    @abstractmethod
    def time_parts(self, times: int) -> PartsTimed:
        """Take each kind of step so many times; the parts of those apart from the other ranks."""

    @abstractmethod
    def profile_steps(self, steps: int, *, counted: bool) -> RoundProfiled:
        """Take steps under a profiler, which goes on until `finish_profile`."""

    @abstractmethod
    def finish_profile(self) -> StepsProfiled:
        """What the counted steps of every round were spent on."""

    def save_checkpoint(self, folder: Path, steps: int) -> CheckpointSaved:
        """Write down all that is needed to go on after so many steps; every rank its part."""
        training = self.training
        training.synchronize()
        training.barrier()
        start = self.clock()
        if self.rank == 0:
            checkpoint_files.begin(folder)
        training.barrier()
        with checkpoint_files.naming_a_full_disk(folder):
            training.save_state(folder / checkpoint_files.UNFINISHED)
            training.barrier()
            written = checkpoint_files.finish(folder, steps).bytes if self.rank == 0 else 0
        training.barrier()
        return CheckpointSaved(seconds=self.clock() - start, bytes=written)

    def load_checkpoint(self, folder: Path) -> CheckpointLoaded:
        """Go on from the newest checkpoint, with the micro-batch that would have been the next."""
        training = self.training
        training.barrier()
        start = self.clock()
        path = checkpoint_files.find_newest(folder)
        steps = checkpoint_files.read_list(path).steps
        if self.rank == 0:  # for all: it reads every file
            checkpoint_files.check(path)
        training.barrier()
        training.load_state(path)
        training.synchronize()
        training.barrier()
        seconds = self.clock() - start
        for _ in training.steps(steps):
            pass
        return CheckpointLoaded(seconds=seconds, steps=steps)

    def use_first_batches(self, count: int) -> Done:
        """Cycle through the first `count` micro-batches from now on."""
        self.training.use_first_batches(count)
        return Done()

    def status_of(self, error: Exception) -> str:
        """The status that an exception of this rank means."""
        if isinstance(error, LaunchFailed):
            return error.status
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            return "oom"
        if tells_of_memory(str(error)):
            return "oom"
        training = getattr(self, "training", None)
        return (training and training.engine.status_of(error)) or "crashed"


def in_a_line(error: Exception) -> str:
    """An error's class and words; of a whole traceback, as ORTModule makes them, the line that matters."""
    words = str(error)
    if len(words) > LONGEST_MESSAGE:
        words = last_error(words) or words.strip().splitlines()[0]
    return f"{type(error).__name__}: {words}"


def serve(channel: Channel, rank: Rank) -> int:
    """Answer requests until the coordinator says `end` or ends itself; the exit status."""
    while True:
        answer: Answer
        try:
            request = channel.receive(REQUESTS)
            if isinstance(request, End):
                rank.close()
                return 0
            answer = rank.answer(request)
        except Closed:
            return 1
        except Exception as error:
            traceback.print_exc()
            answer = Failed(
                status=rank.status_of(error),
                message=error.message if isinstance(error, LaunchFailed) else in_a_line(error),
                details=traceback.format_exc(),
            )
        try:
            channel.send(answer)
        except Closed:
            return 1
        if isinstance(answer, Failed):
            return 1
