"""What the coordinator and a rank say to each other: every request, and what answers it.

The rank decodes a `Request`, the coordinator an `Answer`; msgspec refuses a message with other fields.
MessagePack, since JSON has no NaN, and a loss may be one.
"""

from typing import Any, Generic, TypeVar

import msgspec

from bench.machine.telemetry.gpu_sample import GpuSample
from bench.results.collectives import Collective, CountedCollective, TimedCollective
from bench.results.operator_kinds import ProfiledRound
from bench.results.records import Product, Shape, WorkloadProduct
from bench.results.step_parts import ReadyGradients, TimedPart


class Greeting(msgspec.Struct, frozen=True):
    """A rank's first message, once it has proved that it knows the group's secret."""

    rank: int
    pid: int


# Answers


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The request was carried out; there is nothing to report."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The request failed, and the rank ends.

    Attributes:
        status: one of `bench.errors.STATUSES`.
        message: a line.
        details: the traceback.
    """

    status: str
    message: str
    details: str


class PhaseFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's figures of a phase, named as in `bench.results.records.Phase`.

    Attributes:
        device_ends: how the rank's GPU was doing before the phase and after it; empty where NVML reads none.
        absent: why a figure is None, by its name.
    """

    seconds: float
    cpu_seconds: float
    other_cpu_seconds: float | None
    stolen_seconds: float | None
    page_faults: int
    cpu_clock_mhz: float | None
    cpu_throttles: int | None
    host_peak_bytes: int | None
    torch_peak_allocated_bytes: int | None
    torch_peak_reserved_bytes: int | None
    device_used_bytes: int | None
    device_process_bytes: int | None
    energy_joules: float | None
    device_ends: tuple[GpuSample, ...]
    absent: dict[str, str]


class Built(PhaseFigures, frozen=True, kw_only=True, tag="built"):
    """The model and everything before the first step are there.

    Attributes:
        padding_share: padded positions / all positions; None where samples have no length.
        host_runtime_bytes: of the rank's memory before there was a model.
        import_seconds: of the phase, until all libraries were imported, likewise.
        loaded_bytes: of the files that training starts from: weights, or a device's artifacts.
        library: that multiplies matrices in this engine.
    """

    parameters: int
    trainable_parameters: int
    padding_share: float | None
    host_runtime_bytes: int | None
    import_seconds: float
    loaded_bytes: int
    library: str


class BlockTimed(PhaseFigures, frozen=True, kw_only=True, tag="block_timed"):
    """A block of steps was taken.

    Attributes:
        losses: of every step; NaN is possible.
        loader_seconds: that the rank waited for batches; None if they were there.
        loss_scale: at the end; None if the loss is not scaled.
        skipped_steps: since gradients overflowed; None likewise.
        allocator_retries: how often torch's allocator on the device freed all it kept; None on a CPU.
    """

    losses: list[float]
    loader_seconds: float | None
    loss_scale: float | None
    skipped_steps: int | None
    allocator_retries: int | None


class FirstStepTaken(BlockTimed, frozen=True, kw_only=True, tag="first_step_taken"):
    """The first step was taken.

    Attributes:
        proof: that engine, optimizer and sharding are the ones that were asked for.
        weights_bytes: that this rank holds: the model's, and copies that the optimizer updates.
        optimizer_state_bytes: that this rank holds.
        packages: that this process has imported, as paths of files or folders.
    """

    proof: dict[str, Any]
    weights_bytes: int
    optimizer_state_bytes: int
    packages: list[str]


GRADIENT, BUFFER = "gradient", "buffer"
LAST_GRADIENT, MOVEMENT = "last gradient", "movement"
"""What a tensor is, before its name in the model: of the first step, or of the last one.

A weight's movement is its way from before the first step to after the last one.
"""


class ExpectedTensor(msgspec.Struct, frozen=True, kw_only=True):
    """What plain PyTorch computes in fp32; both are L2 norms over one tensor.

    Attributes:
        norm: of what is expected.
        noise: of what rounding alone changes.
    """

    norm: float
    noise: float


class ExpectedTensorsWritten(msgspec.Struct, frozen=True, kw_only=True, tag="expected_tensors_written"):
    """What the tensors should be is in the folder that the spec names.

    Attributes:
        expected: by kind and name; rank 0's only.
        absent: why there is none, or why there is only the first step's.
    """

    expected: dict[str, ExpectedTensor]
    absent: str = ""


class ParityTrained(msgspec.Struct, frozen=True, kw_only=True, tag="parity_trained"):
    """The untimed steps of the parity launch were taken.

    Attributes:
        losses: of every step.
        gradient_norms: of every step, before the optimizer's update.
        differences: how far tensors are from the expected ones, by kind and name, as L2 norms. Rank 0's
            only, and none if none is expected.
        proof: as in `FirstStepTaken`.
    """

    losses: list[float]
    gradient_norms: list[float]
    differences: dict[str, float]
    proof: dict[str, Any]


class FlopsCounted(msgspec.Struct, frozen=True, kw_only=True, tag="flops_counted"):
    """The work of a step, as in `bench.results.records.Roofline`; only rank 0 counts, others leave it empty.

    Attributes:
        counted: micro-batches with their FLOPs.
        counted_on: `shapes`, or `data`.
        layers_flops: of the first of them, in the repeated layers; None if that cannot be told.
        published_flops: of a model with fewer layers: those of the published one, and of its layers.
        products: the matrix products that have most of the FLOPs.
        absent: why they could not be counted.
    """

    counted: list[tuple[int, int]] = []
    counted_on: str = ""
    layers_flops: int | None = None
    published_flops: tuple[int, int] | None = None
    products: list[WorkloadProduct] = []
    absent: list[str] = []


class ProductsTimed(msgspec.Struct, frozen=True, kw_only=True, tag="products_timed"):
    """This rank's quickest matrix products by its engine.

    Attributes:
        products: of every shape that could be multiplied.
        build: of the library that multiplied.
        absent: why others could not.
    """

    products: list[Product]
    build: dict[str, str]
    absent: list[str]


class ModelExported(msgspec.Struct, frozen=True, kw_only=True, tag="model_exported"):
    """Rank 0 has written its trained model as ONNX; other ranks have nothing to report.

    Attributes:
        bytes: of the model's files.
        seconds: that exporting took.
        exporter: its version, and the opset.
    """

    bytes: int = 0
    seconds: float = 0.0
    exporter: str = ""


class CheckpointSaved(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint_saved"):
    """The state of the training lies on the disk.

    Attributes:
        seconds: from the moment when all ranks were ready until it did.
        bytes: of all its files; only rank 0 counts.
    """

    seconds: float
    bytes: int = 0


class CheckpointLoaded(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint_loaded"):
    """Training can go on where it was.

    Attributes:
        seconds: that it took, the check of all files included.
        steps: that had been taken.
    """

    seconds: float
    steps: int


class Evaluated(msgspec.Struct, frozen=True, kw_only=True, tag="evaluated"):
    """The loss on this rank's part of the held-out data, by the plain model in PyTorch.

    Attributes:
        loss_sum: over all that was predicted; NaN is possible.
        predicted: how many tokens that were.
        steps: that the rank has trained so far.
    """

    loss_sum: float
    predicted: int
    steps: int


class CollectivesCounted(msgspec.Struct, frozen=True, kw_only=True, tag="collectives_counted"):
    """What this rank asked the communication library for in one step."""

    counted: list[CountedCollective]


class CollectivesTimed(msgspec.Struct, frozen=True, kw_only=True, tag="collectives_timed"):
    """How long collectives took on this rank while the ranks did nothing else."""

    timed: list[TimedCollective]


class PartsTimed(msgspec.Struct, frozen=True, kw_only=True, tag="parts_timed"):
    """The parts of a step without communication, on this rank.

    Attributes:
        ready: when the gradients of the last backward pass were there.
    """

    parts: list[TimedPart]
    ready: list[ReadyGradients]


class RoundProfiled(msgspec.Struct, frozen=True, kw_only=True, tag="round_profiled"):
    """Some steps were taken under a profiler.

    Attributes:
        settled: none of them took much memory from the system, which would have cost time of its own.
    """

    settled: bool


class StepsProfiled(msgspec.Struct, frozen=True, kw_only=True, tag="steps_profiled"):
    """Steps were taken under a profiler.

    Attributes:
        rounds: what this rank spent the steps of each round on.
    """

    rounds: list[ProfiledRound]


Answer = (
    Done
    | Failed
    | Built
    | BlockTimed
    | FirstStepTaken
    | ExpectedTensorsWritten
    | ParityTrained
    | FlopsCounted
    | ProductsTimed
    | ModelExported
    | CheckpointSaved
    | CheckpointLoaded
    | Evaluated
    | CollectivesCounted
    | CollectivesTimed
    | PartsTimed
    | RoundProfiled
    | StepsProfiled
)

A = TypeVar("A")


# Requests


class Request(msgspec.Struct, Generic[A], frozen=True, tag_field="do"):
    """Something that every rank of a group is asked for; `A` is the answer to it."""

    @property
    def name(self) -> str:
        """For messages, such as `first_step`."""
        return str(self.__struct_config__.tag)


class Build(Request[Built], frozen=True, tag="build"):
    """Set up everything before the first step."""


class TakeFirstStep(Request[FirstStepTaken], frozen=True, tag="first_step"):
    """Take the first step: export, compilation and allocation happen in it."""


class TimeBlock(Request[BlockTimed], frozen=True, tag="block"):
    """Time so many optimizer steps."""

    steps: int


class UseFirstBatches(Request[Done], frozen=True, tag="use_first_batches"):
    """Cycle through the first `count` micro-batches from now on."""

    count: int


class WriteExpectedTensors(Request[ExpectedTensorsWritten], frozen=True, tag="write_expected_tensors"):
    """Compute what the tensors of so many steps should be; of the reference, before it trains."""

    steps: int


class TrainForParity(Request[ParityTrained], frozen=True, tag="parity"):
    """Take so many steps, untimed.

    Attributes:
        compared_steps: after how many tensors are compared with what `WriteExpectedTensors` wrote; 0: never.
    """

    steps: int
    compared_steps: int = 0


class CountFlops(Request[FlopsCounted], frozen=True, tag="count_flops"):
    """Count the work of a step; after everything else in its launch that needs the model."""


class TimeProducts(Request[ProductsTimed], frozen=True, tag="time_products"):
    """Time matrix products of these shapes, and of large squares, all ranks at a time."""

    shapes: list[Shape]


class ExportModel(Request[ModelExported], frozen=True, tag="export"):
    """Export the trained model; after everything else in its launch that needs it.

    Attributes:
        folder: on rank 0's node, where it goes with its inputs and outputs.
    """

    folder: str


class SaveCheckpoint(Request[CheckpointSaved], frozen=True, tag="save_checkpoint"):
    """Write down all that is needed to go on after this step.

    Attributes:
        folder: of the checkpoints; all ranks share it.
        steps: that have been taken since the first micro-batch.
    """

    folder: str
    steps: int


class LoadCheckpoint(Request[CheckpointLoaded], frozen=True, tag="load_checkpoint"):
    """Go on from the newest checkpoint, with the micro-batch that would have been the next."""

    folder: str


class Evaluate(Request[Evaluated], frozen=True, tag="evaluate"):
    """Compute the loss on the held-out data, untimed; training goes on as if nobody had asked."""


class CountCollectives(Request[CollectivesCounted], frozen=True, tag="count_collectives"):
    """Take a step and count what it asks the communication library for."""


class TimeCollectives(Request[CollectivesTimed], frozen=True, tag="time_collectives"):
    """Do these collectives some times, without training."""

    collectives: list[Collective]


class TimeParts(Request[PartsTimed], frozen=True, tag="time_parts"):
    """Time the parts of a step, each so many times; the last request of its launch but `End`.

    Afterwards the ranks' weights differ.
    """

    times: int


class ProfileSteps(Request[RoundProfiled], frozen=True, tag="profile"):
    """Take so many steps under a profiler, in a launch whose spec says `profiled`.

    Attributes:
        counted: they are a part of what `FinishProfile` answers; else they only warm up.
    """

    steps: int
    counted: bool


class FinishProfile(Request[StepsProfiled], frozen=True, tag="finish_profile"):
    """Say where the time of the counted steps went; the last request of its launch."""


class End(Request[None], frozen=True, tag="end"):
    """End the rank; there is no answer."""


AnyRequest = (
    Build
    | TakeFirstStep
    | TimeBlock
    | UseFirstBatches
    | WriteExpectedTensors
    | TrainForParity
    | CountFlops
    | TimeProducts
    | ExportModel
    | SaveCheckpoint
    | LoadCheckpoint
    | Evaluate
    | CountCollectives
    | TimeCollectives
    | TimeParts
    | ProfileSteps
    | FinishProfile
    | End
)

REQUESTS: "msgspec.msgpack.Decoder[AnyRequest]" = msgspec.msgpack.Decoder(AnyRequest)
ANSWERS: "msgspec.msgpack.Decoder[Answer]" = msgspec.msgpack.Decoder(Answer)
GREETINGS: "msgspec.msgpack.Decoder[Greeting]" = msgspec.msgpack.Decoder(Greeting)
