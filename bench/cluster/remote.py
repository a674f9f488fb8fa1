"""What the coordinator has done on another node: one request at a time to `bench.cluster.node` there."""

import dataclasses
import secrets
from dataclasses import dataclass
from typing import Any

from bench.cluster.meeting import Meeting
from bench.errors import LaunchFailed
from bench.launch.channel import Channel, Closed, Message
from bench.launch.part import AGENT_SECONDS, Ended
from bench.launch.spec import WorkerSpec

ANSWER_SECONDS = 15
"""How long a node may take to answer, beyond what it was asked to wait, before it counts as lost."""


class NodeLost(Exception):
    """The node's program, or its machine, has gone."""


class NodeFailed(Exception):
    """The node could not do what it was asked; it says why."""


class Node:
    """Another machine, from the coordinator's side.

    Args:
        channel: to its program.
        greeting: what that said of itself: `host`, `cores`, `gpus`, `commit`, `code`.
        secret: that both know.
        here: this machine's address, as that one knows it.
        own_host: this machine's name.
    """

    def __init__(self, channel: Channel, greeting: Message, *, secret: str, here: str, own_host: str) -> None:
        self.channel = channel
        self.secret = secret
        self.here = here
        self.own_host = own_host
        self.host = str(greeting["host"])
        self.code = str(greeting["code"])
        self.commit = str(greeting["commit"])
        self.cores: list[int] = list(greeting["cores"])
        self.gpus: list[str] = list(greeting["gpus"])  # UUIDs
        self.number = 0  # 1 and on, once all are there
        self._lost = False

    @property
    def name(self) -> str:
        """For messages."""
        return f"node {self.number} ({self.host})"

    def is_lost(self) -> bool:
        """Whether its program, or its machine, has gone."""
        if not self._lost and self.channel.has_closed():
            self.leave()
        return self._lost

    def request(self, do: str, /, *, seconds: float = 0, **arguments: Any) -> Any:
        """Ask for something that may take so many seconds.

        Raises:
            NodeLost: no answer.
            NodeFailed: it could not.
        """
        if self._lost:
            raise NodeLost
        try:
            self.channel.socket.settimeout(ANSWER_SECONDS + seconds)
            self.channel.send({"do": do, **arguments})
            answer = self.channel.receive()
        except (Closed, ValueError):  # Closed after a time-out, too: an answer that comes late would be
            self.leave()  # taken for that of the next request
            raise NodeLost from None
        if "failed" in answer:
            raise NodeFailed(answer["failed"])
        return answer["result"]

    def leave(self) -> None:
        """End the connection: the node ends all that was started there and waits for the next coordinator."""
        self._lost = True
        self.channel.close()


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What a node has to start for one group.

    Args:
        node: it.
        spec: as the workers there are told.
        settings: of `bench.machine.variables.worker_variables`.
        stack: whose interpreter runs the ranks.
    """

    node: Node
    spec: WorkerSpec
    settings: dict[str, Any]
    stack: str


class RemotePart:
    """Ranks on another node; `bench.launch.part.Part` says what its methods do.

    A node that is lost has no ranks any more: then they do nothing, and `is_lost` tells.

    Raises:
        LaunchFailed: the node could not start it.
    """

    def __init__(self, assignment: Assignment, meeting: Meeting) -> None:
        self.node = assignment.node
        self.name = self.node.name
        self.id = secrets.token_hex(8)
        try:
            self.node.request(
                "start",
                part=self.id,
                number=self.node.number,
                meeting=dataclasses.asdict(meeting),
                spec=dataclasses.asdict(assignment.spec),
                settings=assignment.settings,
                stack=assignment.stack,
            )
        except NodeLost:
            raise LaunchFailed("crashed", f"{self.name} was lost during start") from None
        except NodeFailed as error:
            raise LaunchFailed("crashed", f"{self.name}: {error}") from None

    def adopt(self, rank: int, pid: int) -> None:
        """See `Part`, here and below."""
        self._ask("adopt", None, rank=rank, pid=pid)

    def signal(self, number: int) -> None:
        """Done when this returns."""
        self._ask("signal", None, number=int(number))

    def has_ended(self) -> bool:
        """Asks, so that a machine that does not answer is noticed as well."""
        return bool(self._ask("has_ended", True))

    def is_lost(self) -> bool:
        """Whether the node is."""
        return self.node.is_lost()

    def after(self, seconds: float) -> Ended:
        """Nothing is known of a node that is lost."""
        unknown: dict[str, Any] = {"exits": {}, "agent": None, "oom_killer": False, "log": ""}
        ended = self._ask("after", unknown, wait=seconds, seconds=seconds)
        exits = {int(rank): status for rank, status in ended.pop("exits").items()}
        return Ended(exits=exits, **ended)

    def states(self) -> str:
        """As the node sees them."""
        return str(self._ask("states", f"{self.name} is lost"))

    def log_tail(self) -> str:
        """Of the log there."""
        return str(self._ask("log_tail", ""))

    def terminate(self) -> None:
        """The agent there."""
        self._ask("terminate", None)

    def close(self) -> None:
        """Everything there."""
        self._ask("close", None, wait=AGENT_SECONDS)

    def _ask(self, action: str, lost: Any, wait: float = 0, **arguments: Any) -> Any:
        try:
            return self.node.request("part", seconds=wait, part=self.id, action=action, arguments=arguments)
        except NodeLost:
            return lost
