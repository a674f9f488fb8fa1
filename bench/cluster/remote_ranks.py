"""Ranks on other nodes, started and ended by requests to `bench.cluster.node_agent` there."""

import secrets
import socket
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from bench.cluster.messages import (
    NODE_ANSWERS,
    AnyNodeRequest,
    AskRanks,
    CouldNot,
    NodeGreeting,
    RanksMethod,
    StartRanks,
)
from bench.cluster.rendezvous import Port, Rendezvous, gloo_interface, token
from bench.errors import LaunchFailed
from bench.launch.channel import Channel, Closed, Listener
from bench.launch.local_ranks import AGENT_SECONDS, EndReport
from bench.launch.spec import WorkerSpec

A = TypeVar("A")

ANSWER_SECONDS = 15
"""How long a node may take to answer, beyond what it was asked to wait, before it counts as lost."""


class NodeLost(Exception):
    """The node's program, or its machine, has gone."""


class NodeFailed(Exception):
    """The node could not do what it was asked; it says why."""


class RemoteNode:
    """Another machine, from the coordinator's side.

    Args:
        channel: to its program.
        greeting: what that said of itself.
        secret: that both know.

    Attributes:
        number: its place among the nodes, 1 and on, once all are there.
    """

    def __init__(self, channel: Channel, greeting: NodeGreeting, secret: str) -> None:
        self.channel = channel
        self.greeting = greeting
        self.cores, self.gpus, self.near_cores = greeting.cores, greeting.gpus, greeting.near_cores
        self.secret = secret
        self.number = 0
        self._lost = False

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"node {self.number} ({self.greeting.host})"

    @property
    def coordinator_address(self) -> str:
        """The coordinator's address, as the other node knows it."""
        address: str = self.channel.socket.getsockname()[0]
        return address

    def is_lost(self) -> bool:
        """Whether its program, or its machine, has gone."""
        if not self._lost and self.channel.has_closed():
            self.leave()
        return self._lost

    def request(self, request: AnyNodeRequest, answer_type: type[A], *, seconds: float = 0) -> A:
        """Ask for something that may take so many seconds and is answered with a value of this type.

        Raises:
            NodeLost: no answer.
            NodeFailed: it could not.
        """
        if self._lost:
            raise NodeLost
        try:
            self.channel.socket.settimeout(ANSWER_SECONDS + seconds)
            self.channel.send(request)
            answer = self.channel.receive(NODE_ANSWERS)
        except (Closed, ValueError):  # Closed after a time-out, too: an answer that comes late would be
            self.leave()  # taken for that of the next request
            raise NodeLost from None
        if isinstance(answer, CouldNot):
            raise NodeFailed(answer.reason)
        value: A = msgspec.convert(answer.value, answer_type)
        return value

    def leave(self) -> None:
        """End the connection: the node ends all that was started there and waits for the next coordinator."""
        self._lost = True
        self.channel.close()


class RemoteRanks:
    """Ranks on another node; `bench.launch.local_ranks.NodeRanks` says what its methods do.

    A node that is lost has no ranks any more: then they do nothing, and `is_lost` is true. The arguments are
    the fields of `StartRanks`.

    Raises:
        LaunchFailed: the node could not start it.
    """

    def __init__(
        self,
        node: RemoteNode,
        *,
        spec: WorkerSpec,
        settings: dict[str, Any],
        stack: str,
        rendezvous: Rendezvous,
    ) -> None:
        self.node = node
        self.name = node.name
        self.id = secrets.token_hex(8)
        start = StartRanks(
            ranks_id=self.id,
            node_rank=node.number,
            rendezvous=rendezvous,
            spec=spec,
            settings=settings,
            stack=stack,
        )
        try:
            node.request(start, type(None))
        except NodeLost:
            raise LaunchFailed("crashed", f"{self.name} was lost during start") from None
        except NodeFailed as error:
            raise LaunchFailed("crashed", f"{self.name}: {error}") from None

    def adopt(self, rank: int, pid: int) -> None:
        """A rank has reported to this machine."""
        self._ask("adopt", rank, pid, if_lost=None)

    def signal(self, number: int) -> None:
        """Send a signal to every rank; it is sent when this returns."""
        self._ask("signal", int(number), if_lost=None)

    def has_ended(self) -> bool:
        """Ask whether the agent has, so that a machine that does not answer is noticed as well."""
        return self._ask("has_ended", if_lost=True)

    def is_lost(self) -> bool:
        """Whether the node cannot be reached any more."""
        return self.node.is_lost()

    def wait_for_end(self, seconds: float) -> EndReport:
        """What is known once the agent has ended, or so many seconds later; nothing of a lost node."""
        unknown = EndReport(exits={}, agent=None, oom_killer=False, log="")
        return self._ask("wait_for_end", seconds, if_lost=unknown, wait_s=seconds)

    def states(self) -> str:
        """What each rank does at this moment, as the node sees it."""
        return self._ask_for_words("states", if_lost=f"{self.name} is lost")

    def log_tail(self) -> str:
        """The end of the log there."""
        return self._ask_for_words("log_tail", if_lost="")

    def terminate(self) -> None:
        """Ask the agent there to end."""
        self._ask("terminate", if_lost=None)

    def close(self) -> None:
        """End every process there."""
        self._ask("close", if_lost=None, wait_s=AGENT_SECONDS)

    def _ask_for_words(self, method: RanksMethod, *, if_lost: str) -> str:
        """What explains a failure must not cause another: where the node could not tell, this says so."""
        try:
            return self._ask(method, if_lost=if_lost)
        except NodeFailed as error:
            return f"{self.name} could not tell: {error}"

    def _ask(self, method: RanksMethod, *arguments: float, if_lost: A, wait_s: float = 0) -> A:
        request = AskRanks(ranks_id=self.id, method=method, arguments=list(arguments))
        try:
            return self.node.request(request, type(if_lost), seconds=wait_s)
        except NodeLost:
            return if_lost


class GroupNodes:
    """The other nodes of one group; `bench.launch.group.OtherNodes` says what its attributes are.

    Args:
        specs: what each node starts, in the order of their ranks; one or more.
        settings, stack: as in `StartRanks`.
        ranks_per_node: on each node, this one included.
    """

    def __init__(
        self,
        specs: Sequence[tuple[RemoteNode, WorkerSpec]],
        *,
        settings: dict[str, Any],
        stack: str,
        ranks_per_node: int,
    ) -> None:
        self._specs, self._settings, self._stack = specs, settings, stack
        node, _ = specs[0]
        group_id, host = secrets.token_hex(16), node.coordinator_address
        self.count = len(specs)
        self.local_name = f"node 0 ({socket.gethostname()})"
        self.listener = Listener(host, secret=token(node.secret, group_id))  # for this group's ranks only
        self._port = Port()
        self._rendezvous = Rendezvous(
            id=group_id,
            nnodes=1 + self.count,
            ranks_per_node=ranks_per_node,
            rendezvous_port=self._port.number,
            report_port=self.listener.port,
        )
        self.arguments = self._rendezvous.arguments(host=host, node=0)
        self.variables = gloo_interface(host)

    def start(self) -> Iterator[RemoteRanks]:
        """Start the ranks on one node after the other.

        Raises:
            LaunchFailed: a node could not start them.
        """
        for node, spec in self._specs:
            yield RemoteRanks(
                node, spec=spec, settings=self._settings, stack=self._stack, rendezvous=self._rendezvous
            )

    def close(self) -> None:
        """Stop listening, and let others have the port of the rendezvous."""
        self.listener.close()
        self._port.release()
