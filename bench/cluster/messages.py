"""What the coordinator asks of another node, and what the node answers."""

from typing import Any, Generic, TypeVar, get_args

import msgspec

from bench.cluster.rendezvous import Rendezvous
from bench.launch.local_ranks import EndReport
from bench.launch.spec import WorkerSpec
from bench.machine.telemetry.gpu_sample import GpuSample

A = TypeVar("A")


class NodeGreeting(msgspec.Struct, frozen=True):
    """A node's first message: enough to see whether both sides run the same harness.

    Attributes:
        host: the machine's name.
        code: the hash of the harness's source files there.
        commit: of its checkout.
        cores: that ranks may use.
        gpus: UUIDs.
        near_cores: by GPU, the cores next to it.
    """

    host: str
    code: str
    commit: str
    cores: list[int]
    gpus: list[str]
    near_cores: list[list[int]]


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """The node did what it was asked.

    Attributes:
        value: plain data; `answer_type` of the request says of what.
    """

    value: Any


class CouldNot(msgspec.Struct, frozen=True, tag="could_not"):
    """The node could not do what it was asked.

    Attributes:
        reason: a line.
    """

    reason: str


class GpuReading(msgspec.Struct, frozen=True):
    """A GPU's sample, and why some of its figures are None."""

    sample: GpuSample
    absent: dict[str, str]


class NodeRequest(msgspec.Struct, Generic[A], frozen=True, kw_only=True, tag_field="do"):
    """Something that a node is asked for, and answers with an `A`."""


class RanksRequest(NodeRequest[A], Generic[A], frozen=True, kw_only=True):
    """Something about the ranks that the node has started under this id."""

    ranks_id: str


class DescribeEnvironment(NodeRequest[dict[str, dict[str, Any] | None]], frozen=True, kw_only=True):
    """The fingerprint of each stack's environment; None of one that is not set up there.

    Attributes:
        settings: of the comparison, as `bench.machine.variables.worker_variables` takes them.
        stacks: their names.
    """

    settings: dict[str, Any]
    stacks: list[str]


class ShowLine(NodeRequest[None], frozen=True, kw_only=True):
    """Print a line for whoever looks at the node's terminal."""

    text: str


class SampleGpu(NodeRequest[GpuReading], frozen=True, kw_only=True):
    """Read one GPU."""

    uuid: str


class StartRanks(RanksRequest[None], frozen=True, kw_only=True):
    """Start a group's ranks on the node.

    Attributes:
        node_rank: the node's place among the nodes; the coordinator's is 0.
        rendezvous: how the group's ranks find each other.
        spec: what they train.
        settings: as in `DescribeEnvironment`.
        stack: whose interpreter runs them.
    """

    node_rank: int
    rendezvous: Rendezvous
    spec: WorkerSpec
    settings: dict[str, Any]
    stack: str


class AdoptRank(RanksRequest[None], frozen=True, kw_only=True):
    """One of these ranks has reported to the coordinator."""

    rank: int
    pid: int


class SignalRanks(RanksRequest[None], frozen=True, kw_only=True):
    """Send a signal to every one of these ranks."""

    number: int


class HasEnded(RanksRequest[bool], frozen=True, kw_only=True):
    """Whether the torchrun of these ranks has ended."""


class WaitForEnd(RanksRequest[EndReport], frozen=True, kw_only=True):
    """What is known of these ranks once their torchrun has ended, or so many seconds later."""

    seconds: float


class RankStates(RanksRequest[str], frozen=True, kw_only=True):
    """What each of these ranks does at this moment, in words."""


class LogTail(RanksRequest[str], frozen=True, kw_only=True):
    """The end of what these ranks and their torchrun wrote."""


class TerminateRanks(RanksRequest[None], frozen=True, kw_only=True):
    """Ask the torchrun of these ranks to end."""


class CloseRanks(RanksRequest[None], frozen=True, kw_only=True):
    """End these ranks and their torchrun, by force where needed."""


def answer_type(request: NodeRequest[Any]) -> Any:
    """The type that a request is answered with."""
    return get_args(type(request).__orig_bases__[0])[0]  # type: ignore[attr-defined]


AnyNodeRequest = (
    DescribeEnvironment
    | ShowLine
    | SampleGpu
    | StartRanks
    | AdoptRank
    | SignalRanks
    | HasEnded
    | WaitForEnd
    | RankStates
    | LogTail
    | TerminateRanks
    | CloseRanks
)
NodeAnswer = Answered | CouldNot

NODE_GREETINGS: "msgspec.msgpack.Decoder[NodeGreeting]" = msgspec.msgpack.Decoder(NodeGreeting)
NODE_REQUESTS: "msgspec.msgpack.Decoder[AnyNodeRequest]" = msgspec.msgpack.Decoder(AnyNodeRequest)
NODE_ANSWERS: "msgspec.msgpack.Decoder[NodeAnswer]" = msgspec.msgpack.Decoder(NodeAnswer)
