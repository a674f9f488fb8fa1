"""Ranks on other nodes, started and ended by requests to `bench.plugins.cluster.node_agent` there."""

import secrets
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from bench.errors import LaunchFailed
from bench.launch.channel import Channel, Closed, Listener
from bench.launch.group import Nodes
from bench.launch.local_ranks import AGENT_SECONDS, EndReport
from bench.launch.spec import WorkerSpec
from bench.plugins.cluster.messages import (
    NODE_ANSWERS,
    AnyNodeRequest,
    AskRanks,
    CouldNot,
    NodeGreeting,
    RanksMethod,
    StartRanks,
)
from bench.plugins.cluster.rendezvous import Port, Rendezvous, gloo_interface, token

A = TypeVar("A")

ANSWER_SECONDS = 15
"""How long a node may take to answer, beyond what it was asked to wait, before it counts as lost."""


class NodeLost(Exception):
    """The node's program, or its machine, has gone."""


class NodeFailed(Exception):
    """The node could not do what it was asked; it says why."""


@dataclass(eq=False)
class RemoteNode:
    """Another machine, from the coordinator's side."""

    channel: Channel  # to its program
    greeting: NodeGreeting  # what that said of itself
    secret: str = field(repr=False)  # that both know
    number: int = 0  # its place among the nodes, 1 and on, once all are there
    _lost: bool = False

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"node {self.number} ({self.greeting.host})"

    def is_lost(self) -> bool:
        """Whether its program, or its machine, has gone."""
        if not self._lost and self.channel.has_closed():
            self.leave()
        return self._lost

    def request(self, request: AnyNodeRequest, answer_type: type[A], *, seconds: float = 0) -> A:
        """Ask for what may take `seconds`; `NodeLost` without an answer, or `NodeFailed`."""
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

    A node that is lost has no ranks any more: then they do nothing, and `is_lost` is true. LaunchFailed if
    the node could not start them.
    """

    def __init__(self, node: RemoteNode, start: StartRanks) -> None:
        self.node = node
        self.name = node.name
        self.id = start.ranks_id
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
        """What is known once the agent has ended, or `seconds` later; nothing of a lost node."""
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


def nodes_of_group(
    specs: Sequence[tuple[RemoteNode, WorkerSpec]],
    *,
    settings: dict[str, Any],
    stack: str,
    ranks_per_node: int,
) -> Nodes:
    """The nodes of one group on this machine and others; `specs` are in the order of the others' ranks."""
    group_id = secrets.token_hex(16)
    first, _ = specs[0]
    host: str = first.channel.socket.getsockname()[0]  # this machine's address, as the other node knows it
    listener = Listener(host, secret=token(first.secret, group_id))  # for this group's ranks only
    port = Port()
    rendezvous = Rendezvous(
        id=group_id,
        nnodes=1 + len(specs),
        ranks_per_node=ranks_per_node,
        rendezvous_port=port.number,
        report_port=listener.port,
    )

    def start_others() -> Iterator[RemoteRanks]:
        for node, spec in specs:
            yield RemoteRanks(
                node,
                StartRanks(
                    ranks_id=secrets.token_hex(8),
                    node_rank=node.number,
                    rendezvous=rendezvous,
                    spec=spec,
                    settings=settings,
                    stack=stack,
                ),
            )

    def close() -> None:
        listener.close()
        port.release()

    return Nodes(
        count=rendezvous.nnodes,
        local_name=f"node 0 ({socket.gethostname()})",
        listener=listener,
        arguments=rendezvous.arguments(host=host, node=0),
        variables=gloo_interface(host),
        start_others=start_others,
        close=close,
    )
