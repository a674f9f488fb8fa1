"""What the coordinator asks of another node, and what the node answers."""

from typing import Any, Literal

import msgspec

from bench.cluster.rendezvous import Rendezvous
from bench.launch.spec import WorkerSpec
from bench.machine.telemetry.gpu_sample import GpuSample

RanksMethod = Literal[
    "adopt", "signal", "has_ended", "wait_for_end", "states", "log_tail", "terminate", "close"
]


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
        value: plain data, which `RemoteNode.request` makes a value of.
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


class NodeRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="do"):
    """Something that a node is asked for."""


class DescribeEnvironment(NodeRequest, frozen=True, kw_only=True):
    """The fingerprint of each stack's environment, by its name; None of one that is not set up there.

    Attributes:
        settings: of the comparison, as `bench.machine.variables.worker_variables` takes them.
        stacks: their names.
    """

    settings: dict[str, Any]
    stacks: list[str]


class ShowLine(NodeRequest, frozen=True, kw_only=True):
    """Print a line for whoever looks at the node's terminal."""

    text: str


class SampleGpu(NodeRequest, frozen=True, kw_only=True):
    """Read one GPU."""

    uuid: str


class StartRanks(NodeRequest, frozen=True, kw_only=True):
    """Start a group's ranks on the node.

    Attributes:
        ranks_id: by which `AskRanks` names them.
        node_rank: the node's place among the nodes; the coordinator's is 0.
        rendezvous: how the group's ranks find each other.
        spec: what they train.
        settings: as in `DescribeEnvironment`.
        stack: whose interpreter runs them.
    """

    ranks_id: str
    node_rank: int
    rendezvous: Rendezvous
    spec: WorkerSpec
    settings: dict[str, Any]
    stack: str


class AskRanks(NodeRequest, frozen=True, kw_only=True):
    """Call a method of the ranks that the node has started under this id; the answer is what it returns.

    Attributes:
        method: of `bench.launch.local_ranks.LocalRanks`.
    """

    ranks_id: str
    method: RanksMethod
    arguments: list[Any]


AnyNodeRequest = DescribeEnvironment | ShowLine | SampleGpu | StartRanks | AskRanks
NodeAnswer = Answered | CouldNot

NODE_GREETINGS: "msgspec.msgpack.Decoder[NodeGreeting]" = msgspec.msgpack.Decoder(NodeGreeting)
NODE_REQUESTS: "msgspec.msgpack.Decoder[AnyNodeRequest]" = msgspec.msgpack.Decoder(AnyNodeRequest)
NODE_ANSWERS: "msgspec.msgpack.Decoder[NodeAnswer]" = msgspec.msgpack.Decoder(NodeAnswer)
