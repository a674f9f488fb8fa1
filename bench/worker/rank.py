"""One rank: does what the coordinator asks, one request after the other, and sleeps in a read between."""

import gc
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from bench.errors import LONGEST_MESSAGE, LaunchFailed
from bench.launch.channel import Channel, Closed
from bench.launch.fate import last_error, tells_of_memory
from bench.launch.importing import garbage_collector_off
from bench.launch.messages import (
    REQUESTS,
    Answer,
    AnyRequest,
    BlockTimed,
    Build,
    Built,
    CountFlops,
    Done,
    End,
    ExpectedGradientsWritten,
    Failed,
    FinishProfile,
    FirstStepTaken,
    FlopsCounted,
    ParityTrained,
    ProductsTimed,
    ProfileSteps,
    RoundProfiled,
    StepsProfiled,
    TakeFirstStep,
    TimeBlock,
    TimeProducts,
    TrainForParity,
    UseFirstBatches,
    WriteExpectedGradients,
)
from bench.launch.spec import WorkerSpec
from bench.machine.telemetry.gpu_meter import GpuMeter
from bench.machine.telemetry.rank_meter import RankMeter
from bench.results.records import Shape

if TYPE_CHECKING:
    from bench.worker.step_profile import StepProfiler


class Rank:
    """Answers the requests of `bench.launch.messages`, each by a method.

    Args:
        spec: what is trained, and how.
        rank: among all ranks of the group.
        local_rank: among those on this machine.
        clock: seconds; tests give their own.
    """

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
        uuids = spec.device_uuids
        self.profiler: StepProfiler | None = None
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
            case WriteExpectedGradients():
                return self.write_expected_gradients()
            case TrainForParity(steps=steps, compares_gradients=compares_gradients):
                return self.train_for_parity(steps, compares_gradients=compares_gradients)
            case CountFlops():
                return self.count_flops()
            case TimeProducts(shapes=shapes):
                return self.time_products(shapes)
            case ProfileSteps(steps=steps, counted=counted):
                return self.profile_steps(steps, counted=counted)
            case FinishProfile():
                return self.finish_profile()
            case End():
                raise AssertionError("`serve` ends the rank")

    def build(self) -> Built:
        """Set up everything before the first step, the imports included; torchrun's own start is not."""
        self.meter.prepare(new_peak=False)
        self.meter.start()
        start = self.clock()
        with garbage_collector_off():
            import torch.distributed

            from bench.worker.training import Training, device_of

            device = device_of(self.spec, self.local_rank)
            if device.type == "cuda":
                # Bound to the device, NCCL connects now: its buffers and its time are the set-up's.
                torch.distributed.init_process_group("nccl", device_id=device)
            else:
                torch.distributed.init_process_group("gloo")
            self.training = Training(self.spec, rank=self.rank, device=device)
        self.training.synchronize()
        self.training.barrier()
        seconds = self.clock() - start
        return Built(
            **self._figures(seconds),
            parameters=self.training.parameters,
            trainable_parameters=self.training.trainable_parameters,
            padding_share=self.training.feed.padding_share,
            host_runtime_bytes=self.training.host_runtime_bytes,
            library=self.training.engine.library,
        )

    def first_step(self) -> FirstStepTaken:
        """The first step: export, compilation and allocation happen here."""
        block = self.block(steps=1)
        if block.skipped_steps:  # of fp16; what is read below exists once the weights have been updated
            for batch in self.training.steps(1):
                self.training.step_until_applied(batch)
        # What lives now lives on; kept out of the collector's sight, it need not be searched at each block.
        gc.collect()
        gc.freeze()
        self.training.free_cached()
        return FirstStepTaken(
            **msgspec.structs.asdict(block),
            proof=self.training.proof(),
            weights_bytes=self.training.weights_bytes(),
            optimizer_state_bytes=self.training.optimizer_state_bytes(),
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

    def write_expected_gradients(self) -> ExpectedGradientsWritten:
        """Compute the first step's, by plain PyTorch in fp32; afterwards the batches begin anew."""
        from bench.worker.gradients import write_expected

        training = self.training
        (first,) = training.steps(1)
        absent = write_expected(self.spec, first, rank=self.rank, device=training.device)
        gc.collect()
        training.free_cached()
        return ExpectedGradientsWritten(absent=absent)

    def train_for_parity(self, steps: int, *, compares_gradients: bool = False) -> ParityTrained:
        """Take `steps` steps, untimed; the loss and the gradient's norm of each, and what really ran.

        The first step's gradients are compared with the expected ones, if those could be computed.

        Steps of fp16 that are skipped while the loss's scale is too large are taken again: backends may
        overflow at different scales, since they round differently, and train alike once they do not.
        """
        from bench.worker.gradients import GradientReader

        sharding = self.training.sharding
        sharding.watches_gradient = True
        reader = GradientReader(self.spec.expected_gradients, self.training.named_buffers, rank=self.rank)
        sharding.gradient_reader = reader.read if compares_gradients else None
        losses, norms = [], []
        for batch in self.training.steps(steps):
            losses.append(self.training.step_until_applied(batch).item())
            norms.append(sharding.gradient_norm)
            sharding.gradient_reader = None
        return ParityTrained(
            losses=losses,
            gradient_norms=norms,
            differences=reader.differences,
            proof=self.training.proof(),
        )

    def use_first_batches(self, count: int) -> Done:
        """Cycle through the first `count` micro-batches from now on."""
        self.training.use_first_batches(count)
        return Done()

    def count_flops(self) -> FlopsCounted:
        """The work of a step, counted by rank 0 alone; what fails is only absent.

        It builds a second model, if only as shapes.
        """
        from bench.worker import flops

        if self.rank != 0:
            return FlopsCounted()
        try:
            (first, *_), *_ = self.training.steps(1)
            return FlopsCounted(**flops.count_step(self.spec, first))
        except Exception as error:  # nothing that is trained or timed depends on it
            return FlopsCounted(absent=[f"FLOPs of a step: {in_a_line(error)}"])

    def time_products(self, shapes: list[Shape]) -> ProductsTimed:
        """Matrix products by this rank's engine, while all ranks multiply; what fails is only absent."""
        from bench.worker.products import time_products

        training = self.training
        products, absent = time_products(
            training.engine.prepare_product,
            shapes,
            training.device,
            self.spec.precision.name,
            synchronize=training.synchronize,
            barrier=training.barrier,
        )
        return ProductsTimed(products=products, build=training.engine.describe_library(), absent=absent)

    def profile_steps(self, steps: int, *, counted: bool) -> RoundProfiled:
        """Take steps under a profiler, which goes on until `finish_profile`."""
        from bench.worker.step_profile import StepProfiler, batches_needed

        training = self.training
        if self.profiler is None:
            self.profiler = StepProfiler(
                training.step,
                processes=self.spec.profiled_groups * max(1, len(self.spec.cores)),
                device=training.device,
                synchronize=training.synchronize,
                barrier=training.barrier,
                kernels_of_steps=training.engine.kernels_of_steps,
            )
        training.barrier()
        settled = self.profiler.profile(training.steps(batches_needed(steps)), counted=counted)
        return RoundProfiled(settled=settled)

    def finish_profile(self) -> StepsProfiled:
        """What the counted steps of every round were spent on."""
        assert self.profiler is not None, "something has been profiled"
        return StepsProfiled(rounds=self.profiler.finish())

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
