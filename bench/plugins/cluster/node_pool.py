"""The other nodes of a comparison: waits for them, compares them with this one."""

import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

from bench.config.device import host_and_port
from bench.config.schema import Config
from bench.errors import LaunchFailed, UserError
from bench.launch.channel import Listener
from bench.launch.group import Nodes
from bench.launch.spec import WorkerSpec
from bench.machine import environment, source_code
from bench.machine.telemetry.gpu_meter import GpuSample
from bench.machine.variables import SECRET_VARIABLE
from bench.measure.plan.cores import core_shares
from bench.measure.plan.resolve import environment_settings
from bench.plugins.cluster.messages import NODE_GREETINGS, DescribeEnvironment, SampleGpu
from bench.plugins.cluster.remote_ranks import NodeFailed, NodeLost, RemoteNode, nodes_of_group
from bench.plugins.cluster.rendezvous import shared_secret
from bench.setup import stacks

DESCRIBE_SECONDS = 60
"""A node describes its environment in a second; with cold disks and several stacks it takes longer."""

SAME_MEMORY = 0.02
"""Share by which the memory of two equal machines may differ: firmware and kernel keep some of it."""

Say = Callable[[str], None]


@contextmanager
def connected_nodes(config: Config, say: Say) -> Iterator["NodePool"]:
    """The other nodes, all of them there and like this one; UserError if they did not come, or differ."""
    nodes = NodePool(config, say)
    try:
        nodes.gather()
        yield nodes
    finally:
        nodes.close()


class NodePool:
    """Listens at device.rdzv_endpoint as long as the comparison lasts; `say` tells what is waited for."""

    def __init__(self, config: Config, say: Say) -> None:
        device = config.device
        assert device.rdzv_endpoint is not None, "Device refuses several nodes without it"
        self.device = device
        self.endpoint = device.rdzv_endpoint
        self.say = say
        self.settings = environment_settings(config)
        self.members: list[RemoteNode] = []  # the other nodes, in the order of their ranks
        self.stacks = sorted({backend.stack or stacks.own() for backend in config.backends.values()})
        self.own_environments = {name: environment.take(self.settings, name) for name in self.stacks}
        self.code = source_code.code_hash()
        secret = shared_secret()
        try:
            self.listener = Listener(*host_and_port(self.endpoint), secret=secret)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserError(
                f"device.rdzv_endpoint={self.endpoint} cannot be listened at ({reason}); give a name or "
                "address of this machine, and a port that nobody uses."
            ) from None

    def gather(self) -> None:
        """Wait until all are there; UserError if they are not in time, or one differs from this one."""
        others, seconds = self.device.nnodes - 1, self.device.rdzv_timeout_s
        self.say(
            f"waiting up to {seconds:g} seconds at {self.endpoint} for {others} other "
            f"node{'s'[: others > 1]}: `make node COORDINATOR={self.endpoint}` there"
        )
        end = time.monotonic() + seconds
        while len(self.members) < others:
            node = self._next(end)
            self.members = [member for member in self.members if not member.is_lost()]
            if node is not None:
                self.members.append(node)
            elif time.monotonic() >= end:
                raise UserError(
                    f"{len(self.members)} of {others} other nodes reported at "
                    f"device.rdzv_endpoint={self.endpoint} within {seconds:g} seconds; run `make node "
                    f"COORDINATOR={self.endpoint}` on each of them, with the same {SECRET_VARIABLE}, or set "
                    "a longer device.rdzv_timeout_s."
                )
        self.members.sort(
            key=lambda node: node.greeting.host
        )  # arrival is chance; the order decides about the ranks
        for number, node in enumerate(self.members, start=1):
            node.number = number
            self._refuse_if_different(node)
        self.say(f"all nodes are there: {', '.join(node.name for node in self.members)}")

    def require(self) -> None:
        """Make sure that all are there; LaunchFailed if status `skipped`, one is missing."""
        if lost := [node for node in self.members if node.is_lost()]:
            raise LaunchFailed(
                "skipped",
                f"{lost[0].name} was lost before; start `make node COORDINATOR={self.endpoint}` there again, "
                "and add what is missing with resume=true",
            )

    def of_group(self, spec: WorkerSpec, settings: dict[str, Any], stack: str) -> Nodes:
        """The nodes of one group: the others start the same as this one, on their own cores and devices."""
        self.require()
        specs = []
        for node in self.members:
            cores = core_shares(
                node.greeting.cores,
                world_size=self.device.ranks_per_node,
                threads=spec.threads,
                held=spec.pins_cores,
                near=node.greeting.near_cores if spec.device_uuids else (),
            )
            uuids = tuple(node.greeting.gpus) if spec.device_uuids else ()
            specs.append((node, replace(spec, cores=tuple(cores), device_uuids=uuids)))
        ranks_per_node = self.device.ranks_per_node
        return nodes_of_group(specs, settings=settings, stack=stack, ranks_per_node=ranks_per_node)

    def devices(self) -> list["RemoteDevice"]:
        """The GPU of every rank on the other nodes."""
        ranks = range(self.device.ranks_per_node)
        return [RemoteDevice(self, place, rank) for place in range(len(self.members)) for rank in ranks]

    def close(self) -> None:
        """Let the nodes wait for the next comparison."""
        for node in self.members:
            node.leave()
        self.listener.close()

    def _next(self, end: float) -> RemoteNode | None:
        """The next that reports; None if it does not know the secret, or nobody comes until `end`."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener.socket, selectors.EVENT_READ)
            if not selector.select(max(0.0, end - time.monotonic())):
                return None
        accepted = self.listener.accept(NODE_GREETINGS)
        if accepted is None:
            self.say(f"somebody who does not know this node's {SECRET_VARIABLE} was turned away")
            return None
        channel, greeting = accepted
        return RemoteNode(channel, greeting, self.listener.secret)

    def _refuse_if_different(self, node: RemoteNode) -> None:
        """UserError if a node differs from this one, or is lost again."""
        try:
            differences = self._describe_differences(node)
        except NodeLost:
            differences = "it was lost again"
        except NodeFailed as error:
            differences = str(error)
        if differences:
            raise UserError(f"{node.name} cannot take part: {differences}.")

    def _describe_differences(self, node: RemoteNode) -> str:
        if node.greeting.code != self.code:
            return (
                f"its checkout is at commit {node.greeting.commit} and this one at "
                f"{source_code.git_commit()}, or has other changes; bring both to the same"
            )
        described = DescribeEnvironment(settings=self.settings, stacks=self.stacks)
        theirs = node.request(described, dict[str, dict[str, Any] | None], seconds=DESCRIBE_SECONDS)
        lines: dict[str, None] = {}
        for name, own in self.own_environments.items():
            environment_there = theirs[name]
            if environment_there is None:
                return f"the {name} stack is not set up there; run `make setup STACK={name}`"
            lines |= dict.fromkeys(
                environment.find_differences(*_comparable(own, environment_there), other_is="there")
            )
        if not lines:
            return ""
        return f"it differs from this one in {'; '.join(lines)}; make them equal, or measure on fewer nodes"


def _comparable(own: dict[str, Any], theirs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two environments without what may differ between nodes: names of interfaces, a little memory."""

    def without_interfaces(described: dict[str, Any]) -> dict[str, Any]:
        variables = described["variables"].items()
        kept = {name: value for name, value in variables if not name.endswith("_SOCKET_IFNAME")}
        return {**described, "variables": kept}

    own, theirs = without_interfaces(own), without_interfaces(theirs)
    if abs(own["memory_gib"] - theirs["memory_gib"]) <= SAME_MEMORY * own["memory_gib"]:
        theirs["memory_gib"] = own["memory_gib"]
    return own, theirs


@dataclass
class RemoteDevice:
    """A GPU of another node, read through its program; has the methods of `GpuMeter`."""

    nodes: NodePool
    place: int  # of the node among them, whichever machine has taken it
    local_rank: int  # whose GPU it is
    absent: dict[str, str] = field(default_factory=dict)  # why a figure is None, by its name

    def sample(self) -> GpuSample:
        """Everything about it at this moment; nothing once its node is lost."""
        node = self.nodes.members[self.place]
        try:
            gpu = SampleGpu(uuid=node.greeting.gpus[self.local_rank])
            sample, absent = node.request(gpu, tuple[GpuSample, dict[str, str]])
        except NodeLost:
            self.absent["node"] = f"{node.name} was lost: figures of its GPUs are missing"
            return GpuSample(**dict.fromkeys(each.name for each in fields(GpuSample)))
        self.absent |= absent
        return sample
