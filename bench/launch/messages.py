"""What the coordinator and a rank say to each other: every request, and what answers it.

The rank decodes a `Request`, the coordinator an `Answer`; msgspec refuses a message with other fields.
MessagePack, since JSON has no NaN, and a loss may be one.
"""

from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, Union

import msgspec

from bench.machine.telemetry.gpu_meter import GpuSample
from bench.study import load_parts

A = TypeVar("A")
M = TypeVar("M")


class Greeting(msgspec.Struct, frozen=True):
    """A rank's first message, once it has proved that it knows the group's secret."""

    rank: int
    pid: int


class Answer(msgspec.Struct, frozen=True, tag=True):
    """What a rank answers; the class's name is the tag by which messages are decoded."""


class Done(Answer, frozen=True):
    """The request was carried out; there is nothing to report."""


class Failed(Answer, frozen=True):
    """The request failed, and the rank ends."""

    status: str  # one of `bench.errors.STATUSES`
    message: str  # a line
    details: str  # the traceback


class PhaseFigures(Answer, frozen=True, kw_only=True):
    """One rank's figures of a phase, named as in `bench.results.records.Phase`."""

    seconds: float
    cpu_seconds: float
    other_cpu_seconds: float | None
    stolen_seconds: float | None
    page_faults: int
    cpu_clock_mhz: float | None
    cpu_throttles: int | None
    host_peak_bytes: int | None
    host_anonymous_peak_bytes: int | None
    torch_peak_allocated_bytes: int | None
    torch_peak_reserved_bytes: int | None
    device_used_bytes: int | None
    device_process_bytes: int | None
    energy_joules: float | None
    device_ends: tuple[GpuSample, ...]  # of the rank's GPU before the phase and after it; empty without NVML
    absent: dict[str, str]  # why a figure is None, by its name


class Built(PhaseFigures, frozen=True, kw_only=True):
    """The model and everything else before the first step are built."""

    attention: str  # that the model has, where the rank was to choose
    parameters: int
    trainable_parameters: int
    padding_share: float | None  # padded positions / all positions; None where samples have no length
    host_runtime_bytes: int | None  # of the rank's memory before there was a model
    host_runtime_anonymous_bytes: int | None  # of it, without pages of files
    import_seconds: float  # of the phase, until all libraries were imported
    weights: str  # what of a checkpoint was not used, and what was new for the task
    library: str  # that multiplies matrices in this engine


class BlockTimed(PhaseFigures, frozen=True, kw_only=True):
    """A block of steps was taken."""

    losses: list[float]  # of every step, those before the timed ones included; NaN is possible
    micro_batches: int  # that were trained, counted as they came from the feed; so are the next two
    samples: int
    tokens: int | None  # padding included; None where the batches have none
    loader_seconds: float | None  # that the rank waited for batches; None if they were made beforehand
    loss_scale: float | None  # at the end; None if the loss is not scaled
    skipped_steps: int | None  # since gradients overflowed; None if the loss is not scaled
    allocator_retries: int | None  # how often torch's allocator freed all it kept; None on a CPU


class FirstStepTaken(BlockTimed, frozen=True, kw_only=True):
    """The first step was taken."""

    is_random: bool  # something drew random numbers in it, such as dropout
    proof: dict[str, Any]  # that engine, optimizer and sharding are the ones that were asked for
    weights_bytes: int  # that this rank holds: the model's, and copies that the optimizer updates
    optimizer_state_bytes: int  # that this rank holds


GRADIENT, BUFFER = "gradient", "buffer"
LAST_GRADIENT, WEIGHT_UPDATE = "last gradient", "weight update"
"""What a tensor is, before its name in the model: of the first step, or of the last one.

A weight update is the whole way of a weight from before the first step to after the last one.
"""

GRADIENTS = (GRADIENT, "second gradient", "third gradient", LAST_GRADIENT)


def gradient_kinds(steps: int) -> dict[int, str]:
    """Which of `steps` steps, counted from 1, have their gradients compared, and the gradients' names."""
    return dict(enumerate(GRADIENTS[:3], start=1)) | ({steps: LAST_GRADIENT} if steps > 1 else {})


FROZEN = "frozen"
"""The key in an exporting engine's proof for the places where its exporter warned that a value gets fixed."""


class ExpectedTensor(msgspec.Struct, frozen=True, kw_only=True):
    """What plain PyTorch computes in fp32; all are L2 norms over one tensor."""

    norm: float  # of what is expected
    noise: float  # of what rounding alone changes
    reach: float = 0.0  # of a weight update whose elements all go as far as the learning rate lets them
    flip: float = 0.0  # of one element whose first gradient may be rounding: AdamW moves it either way


class ExpectedTensorsWritten(Answer, frozen=True, kw_only=True):
    """What the tensors should be is in the folder that the spec names."""

    expected: dict[str, ExpectedTensor]  # by kind and name; rank 0's only
    absent: str = ""  # why there is none, or why there is only the first step's
    batches: list[int] = []
    trained: list[int] = []


class ParityTrained(Answer, frozen=True, kw_only=True):
    """The untimed steps of the parity launch were taken."""

    losses: list[float]  # of every step
    gradient_norms: list[float]  # of every step, before the optimizer's update
    seconds: list[float]  # of every step, while other backends train beside it
    differences: dict[str, float]  # from the expected tensors, by kind and name: L2 norms; rank 0's only
    proof: dict[str, Any]  # as in `FirstStepTaken`


class LossesComputed(Answer, frozen=True, kw_only=True):
    """Micro-batches went forward, and nothing was updated."""

    losses: list[float]  # of this rank's, in the order of the request


class Request(msgspec.Struct, Generic[A], frozen=True, tag_field="do"):
    """Something that every rank of a group is asked for; `A` is the answer to it.

    `bench.worker.rank.rank.Rank` has a method of the tag's name with its fields as arguments.
    """

    answered_by: ClassVar[str] = ""  # a module with a function of the tag's name, which gets the rank, too

    @property
    def name(self) -> str:
        """The tag, such as `first_step`."""
        return str(self.__struct_config__.tag)


class Build(Request[Built], frozen=True, tag="build"):
    """Set up everything before the first step."""


class TakeFirstStep(Request[FirstStepTaken], frozen=True, tag="first_step"):
    """Take the first step: export, compilation and allocation happen in it."""


class TimeBlock(Request[BlockTimed], frozen=True, tag="block"):
    """Time `steps` optimizer steps."""

    steps: int
    untimed: int = 0  # steps that go before them
    times: int = 1  # how often each sample is in its micro-batch: for trials of larger ones


class UseBatches(Request[Done], frozen=True, tag="use_batches"):
    """Cycle through these micro-batches from now on."""

    numbers: list[list[int]]  # by rank, or one list for all ranks


class ComputeLosses(Request[LossesComputed], frozen=True, tag="compute_losses"):
    """Compute the losses of these micro-batches as in training, and update nothing."""

    numbers: list[list[int]]  # by rank
    weights: str = ""  # the file with those to compute with, without dropout: a group's last request
    saves: bool = False  # its own into that file first


class WriteExpectedTensors(Request[ExpectedTensorsWritten], frozen=True, tag="write_expected_tensors"):
    """Compute the expected tensors of `steps` steps; sent to the reference, before it trains."""

    steps: int
    distinct: int = 0  # steps with different micro-batches, chosen now; 0: the micro-batches that come next
    batches: int = 0  # most micro-batches to choose from; the losses of all these are compared


class TrainForParity(Request[ParityTrained], frozen=True, tag="parity"):
    """Take `steps` steps, untimed."""

    steps: int
    compared: bool = False  # with the files of `WriteExpectedTensors`, which are of as many steps


class End(Request[None], frozen=True, tag="end"):
    """End the rank; there is no answer."""


AT_ONCE = (UseBatches, ComputeLosses, TrainForParity)
"""The requests that all groups of a launch get at the same time, and need memory for."""


@cache
def decoder_of(base: type[M]) -> "msgspec.msgpack.Decoder[M]":
    """A decoder of every class that derives from `base`, studies' own included; the tag chooses the class."""
    load_parts("messages")
    classes = [base]
    for each in classes:  # the loop appends to the list, so it visits all generations
        classes += each.__subclasses__()
    return msgspec.msgpack.Decoder(Union[tuple(classes[1:])])  # noqa: UP007 - of a list


GREETINGS: "msgspec.msgpack.Decoder[Greeting]" = msgspec.msgpack.Decoder(Greeting)
