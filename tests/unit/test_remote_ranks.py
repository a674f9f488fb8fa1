"""Ranks on another node: what it cannot start, and what of its log reaches the row of a failure."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.errors import LaunchFailed
from bench.launch.channel import Channel
from bench.measure.comparison import Comparison
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.plans import PARITY, Launch
from bench.plugins.cluster import node_agent as node_program
from bench.plugins.cluster.messages import StartRanks
from bench.plugins.cluster.remote_ranks import RemoteNode, RemoteRanks
from bench.plugins.cluster.rendezvous import Rendezvous
from tests.support.configs import a_config

pytestmark = pytest.mark.once

SECRET = "a secret of sixteen or more"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[RemoteNode]:
    """A node whose requests the real session of the node's program answers, in a thread."""
    ours, theirs = socket.socketpair()
    session = node_program.Session(Channel(theirs), SECRET, tmp_path)
    threading.Thread(target=session.serve, daemon=True).start()
    node = RemoteNode(Channel(ours), node_program.greeting(), SECRET)
    yield node
    node.leave()


def remote_ranks(node: RemoteNode, folder: Path) -> RemoteRanks:
    spec = Comparison(a_config(folder), "m").shared.starter.spec("pytorch", PARITY)
    rendezvous = Rendezvous(id="x", nnodes=2, ranks_per_node=1, rendezvous_port=1, report_port=2)
    start = StartRanks(
        ranks_id="r", node_rank=1, rendezvous=rendezvous, spec=spec, settings={}, stack="nonesuch"
    )
    return RemoteRanks(node, start)


def test_what_a_node_cannot_start_ends_in_its_own_words(served: RemoteNode, tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed, match="nonesuch"):
        remote_ranks(served, tmp_path)


class FakeLocalRanks:
    """Stands for the ranks that the session starts on its node."""

    def log_tail(self) -> str:
        return "what the node's ranks wrote"

    def close(self) -> None:
        pass


@pytest.fixture
def started(served: RemoteNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteRanks:
    """Ranks on the served node, which starts no process for them."""

    def start(session: node_program.Session, request: StartRanks) -> None:
        session.ranks_by_id[request.ranks_id] = FakeLocalRanks()  # type: ignore[assignment]

    monkeypatch.setattr(node_program.Session, "_start", start)
    return remote_ranks(served, tmp_path)


def test_a_group_on_a_living_node_that_fails_leaves_its_log_in_its_row(started: RemoteRanks) -> None:
    recorded: list[str] = []

    def fail() -> None:
        raise LaunchFailed("crashed", "rank 1 was killed")

    def start(name: str, launch: Launch) -> Any:
        group = ExitStack()
        group.callback(started.close)
        vars(group).update(connect=lambda: None, log_tail=started.log_tail)
        return group

    def record(name: str, launch: Launch, failure: LaunchFailed, log_tail: str) -> None:
        recorded.append(log_tail)

    with RunningGroups(PARITY, start, record) as groups:
        groups.start(["pytorch"])
        with groups.closing_if_it_fails("pytorch"):
            fail()
    assert recorded == ["what the node's ranks wrote"]
