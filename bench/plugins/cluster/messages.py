"""What the coordinator asks of another node, and what the node answers."""

from typing import Any, Literal

import msgspec

from bench.launch.spec import WorkerSpec
from bench.plugins.cluster.rendezvous import Rendezvous

RanksMethod = Literal[
    "adopt", "signal", "has_ended", "wait_for_end", "states", "log_tail", "terminate", "close"
]


class NodeGreeting(msgspec.Struct, frozen=True):
    """A node's first message: enough to see whether both sides run the same harness."""

    host: str  # the machine's name
    code: str  # the hash of the harness's source files there
    commit: str  # of its checkout
    cores: list[int]  # that ranks may use
    gpus: list[str]  # UUIDs
    near_cores: list[list[int]]  # by GPU, the cores next to it


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """The node did what it was asked."""

    value: Any  # plain data, which `RemoteNode.request` makes a value of


class CouldNot(msgspec.Struct, frozen=True, tag="could_not"):
    """The node could not do what it was asked."""

    reason: str  # a line


class NodeRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="do"):
    """Something that a node is asked for."""


class DescribeEnvironment(NodeRequest, frozen=True, kw_only=True):
    """Each stack's environment there, by the stack's name; None for one that is not set up."""

    settings: dict[str, Any]  # of the comparison, as `bench.machine.variables.worker_variables` takes them
    stacks: list[str]  # their names


class SampleGpu(NodeRequest, frozen=True, kw_only=True):
    """Read one GPU: a `GpuSample`, and why some of its figures are None."""

    uuid: str


class StartRanks(NodeRequest, frozen=True, kw_only=True):
    """Start a group's ranks on the node."""

    ranks_id: str  # by which `AskRanks` names them
    node_rank: int  # the node's place among the nodes; the coordinator's is 0
    rendezvous: Rendezvous  # how the group's ranks find each other
    spec: WorkerSpec  # what they train
    settings: dict[str, Any]  # as in `DescribeEnvironment`
    stack: str  # whose interpreter runs them


class AskRanks(NodeRequest, frozen=True, kw_only=True):
    """Call a method of the ranks that the node has started under this id; the answer is what it returns."""

    ranks_id: str
    method: RanksMethod  # of `bench.launch.local_ranks.LocalRanks`
    arguments: list[Any]


AnyNodeRequest = DescribeEnvironment | SampleGpu | StartRanks | AskRanks
NodeAnswer = Answered | CouldNot

NODE_GREETINGS: "msgspec.msgpack.Decoder[NodeGreeting]" = msgspec.msgpack.Decoder(NodeGreeting)
NODE_REQUESTS: "msgspec.msgpack.Decoder[AnyNodeRequest]" = msgspec.msgpack.Decoder(AnyNodeRequest)
NODE_ANSWERS: "msgspec.msgpack.Decoder[NodeAnswer]" = msgspec.msgpack.Decoder(NodeAnswer)
