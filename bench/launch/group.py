"""One worker group: the processes of one backend in one launch, from start to end."""

import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import LaunchFailed
from bench.launch import fate
from bench.launch.channel import Channel, Closed, Listener
from bench.launch.local_ranks import AGENT_SECONDS, LocalRanks, NodeRanks
from bench.launch.messages import GREETINGS, A, Answer, End, Failed, Request, decoder_of
from bench.launch.spec import WorkerSpec
from bench.machine.telemetry.gpu_sampler import GpuSampler

SELECT_SECONDS = 5  # how often a waiting coordinator checks whether the agents are still alive

SECONDS_FOR_THE_CAUSE = 1.0
"""After one rank's failure, how long the others may take to report theirs, which may be the cause of it."""


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The nodes of a group, as this one sees them; `bench.plugins.cluster.remote_ranks` makes it."""

    count: int  # this node included
    local_name: str  # what messages call this node; empty if it is the only one
    listener: Listener  # where all ranks report
    arguments: Sequence[str]  # torchrun's on this node
    variables: Mapping[str, str]  # that the ranks of this node need to find the others
    start_others: Callable[[], Iterable[NodeRanks]]  # starts the ranks on the others, in their order
    close: Callable[[], None]  # stops listening, and gives up what else was reserved for the group


def _this_node_alone(world_size: int) -> Nodes:
    listener = Listener()
    return Nodes(
        count=1,
        local_name="",
        listener=listener,
        # Its own default is the host's name, which may resolve to no address.
        arguments=("--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={world_size}"),
        variables={},
        start_others=tuple,
        close=listener.close,
    )


class Group(AbstractContextManager["Group"]):
    """Starts on construction; `connect` waits for its ranks; `close` leaves no process behind.

    All that is asked of it may take `timeout_s` seconds together.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        world_size: int,
        folder: Path,
        variables: Mapping[str, str],
        timeout_s: float,
        interpreter: str = sys.executable,
        nodes: Nodes | None = None,
    ) -> None:
        self.world_size = world_size
        self.timeout_s = timeout_s
        self.seconds_left = timeout_s
        self.channels: dict[int, Channel] = {}
        self.pids: dict[int, int] = {}  # by rank, each on its node
        nodes = nodes or _this_node_alone(world_size)
        self.ranks_per_node = world_size // nodes.count
        self.listener = nodes.listener
        with ExitStack() as undo:  # what a failing start has opened so far
            undo.callback(nodes.close)
            self.local_ranks = LocalRanks(
                spec,
                arguments=nodes.arguments,
                folder=folder,
                variables={**nodes.variables, **variables, **self.listener.variables()},
                interpreter=interpreter,
                name=nodes.local_name,
            )
            undo.callback(self.local_ranks.close)
            self.nodes_ranks: list[NodeRanks] = [self.local_ranks]
            for node_ranks in nodes.start_others():
                undo.callback(node_ranks.close)
                self.nodes_ranks.append(node_ranks)
            self._undo = undo.pop_all()

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Wait until every rank has connected and waits for a request; LaunchFailed if they did not come."""
        with self._within_the_limit() as deadline, selectors.DefaultSelector() as selector:
            selector.register(self.listener.socket, selectors.EVENT_READ)
            while len(self.channels) < self.world_size:
                for _ in self._wait(selector, deadline, "start"):
                    if accepted := self.listener.accept(GREETINGS):
                        channel, greeting = accepted
                        rank, pid = greeting.rank, greeting.pid
                        self.channels[rank], self.pids[rank] = channel, pid
                        self._node_ranks_of(rank).adopt(rank, pid)

    def request(self, request: Request[A], sampler: GpuSampler | None = None) -> list[A]:
        """Ask every rank; their answers in order. LaunchFailed if one failed, ended or took too long."""
        self.ask(request)
        return self.answers(request, sampler)

    def ask(self, request: Request[Any]) -> None:
        """Send a request without waiting for the answers."""
        self._signal_ranks(signal.SIGCONT)
        for rank, channel in self.channels.items():
            try:
                channel.send(request)
            except Closed:
                raise self._explain_failure({rank: None}, request.name) from None

    def answers(self, request: Request[A], sampler: GpuSampler | None = None) -> list[A]:
        """Wait for every rank's answer to `ask`; meanwhile `sampler` samples when it is due."""
        answers: dict[int, Any] = {}
        failures_by_rank: dict[int, LaunchFailed | None] = {}  # None: it ended without a word
        reports_due: float | None = None  # the time by which all must have reported, once the first has
        with self._within_the_limit() as deadline, selectors.DefaultSelector() as selector:
            for rank, channel in self.channels.items():
                selector.register(channel.socket, selectors.EVENT_READ, rank)
            while selector.get_map():
                if reports_due is None:
                    ready = self._wait(selector, deadline, request.name, sampler)
                elif not (ready := selector.select(max(0.0, reports_due - time.monotonic()))):
                    break
                for key, _ in ready:
                    rank = key.data
                    try:
                        answer = self.channels[rank].receive_if_complete(decoder_of(Answer))
                    except Closed:
                        selector.unregister(key.fileobj)
                        failures_by_rank[rank] = None
                        continue
                    if answer is None:
                        continue
                    selector.unregister(key.fileobj)
                    if isinstance(answer, Failed):
                        failures_by_rank[rank] = LaunchFailed(answer.status, answer.message, answer.details)
                    answers[rank] = answer
                if failures_by_rank and reports_due is None:
                    reports_due = time.monotonic() + SECONDS_FOR_THE_CAUSE
        if failures_by_rank:
            raise self._explain_failure(failures_by_rank, request.name)
        return [answers[rank] for rank in range(self.world_size)]

    def pause(self) -> None:
        """Stop the ranks, which all wait, until they are asked for something again.

        Waiting ranks sleep in a read, but gloo's event loops would still wake a hundred times a second: half
        a per cent of a core with two waiting groups.
        """
        self._signal_ranks(signal.SIGSTOP)

    def log_tail(self) -> str:
        """The end of what the agents and the ranks wrote, node by node."""
        return self._join_logs({node_ranks.name: node_ranks.log_tail() for node_ranks in self.nodes_ranks})

    def end(self) -> None:
        """Let the ranks end by themselves."""
        self._signal_ranks(signal.SIGCONT)
        for channel in self.channels.values():
            with suppress(Closed, TimeoutError):
                channel.send(End())
                channel.socket.settimeout(10)
                channel.receive(decoder_of(Answer))
        for node_ranks in self.nodes_ranks:
            node_ranks.terminate()

    def close(self) -> None:
        """End every process of the group, by force where it is still there. May be called twice."""
        for channel in self.channels.values():
            channel.close()
        self._undo.close()
        self.pids.clear()

    @contextmanager
    def _within_the_limit(self) -> Iterator[float]:
        """The moment at which the launch's time is over; what is done until then is taken off it."""
        start = time.monotonic()
        try:
            yield start + self.seconds_left
        finally:
            self.seconds_left -= time.monotonic() - start

    def _wait(
        self,
        selector: selectors.BaseSelector,
        deadline: float,
        action: str,
        sampler: GpuSampler | None = None,
    ) -> list[Any]:
        patience = min(SELECT_SECONDS, deadline - time.monotonic())
        if sampler is not None:
            sampler.sample()
            patience = min(patience, sampler.seconds_until_due())
        ready = selector.select(max(0.0, patience))
        if ready:
            return ready
        for number, node_ranks in enumerate(self.nodes_ranks):
            if node_ranks.has_ended():
                first = number * self.ranks_per_node
                raise self._explain_failure(dict.fromkeys(range(first, first + self.ranks_per_node)), action)
        if time.monotonic() >= deadline:
            states = f"; {', '.join(ranks.states() for ranks in self.nodes_ranks)}" if self.pids else ""
            raise LaunchFailed(
                "timeout",
                f"{action}: this launch took longer than measure.timeout_s={self.timeout_s:g} seconds in all"
                + states,
            )
        return []

    def _explain_failure(
        self, failures_by_rank: Mapping[int, LaunchFailed | None], action: str
    ) -> LaunchFailed:
        """The failure that explains the others'; None: the rank ended without a word."""
        if lost := self._lost(action):  # whatever the others report, the lost node is its cause
            return lost
        reported = [failure for failure in failures_by_rank.values() if failure is not None]
        more_specific = [failure for failure in reported if failure.status != "crashed"]
        if more_specific or (reported and len(reported) == len(failures_by_rank)):
            return (more_specific or reported)[0]
        silent = [rank for rank, failure in failures_by_rank.items() if failure is None]
        concerned = {self._node_ranks_of(rank).name: self._node_ranks_of(rank) for rank in silent}
        reports = {name: node_ranks.wait_for_end(AGENT_SECONDS) for name, node_ranks in concerned.items()}
        if lost := self._lost(action):
            return lost
        failed = {name: report.agent for name, report in reports.items() if report.agent}
        agent = next(iter(failed), "")
        return fate.explain(
            action,
            reported=reported,
            silent=silent,
            exits={rank: status for report in reports.values() for rank, status in report.exits.items()},
            agent=failed.get(agent),
            torchrun=f"torchrun on {agent}" if agent else "torchrun",
            log=self._join_logs({name: report.log for name, report in reports.items()}),
            oom_killer=any(report.oom_killer for report in reports.values()),
        )

    def _lost(self, action: str) -> LaunchFailed | None:
        for node_ranks in self.nodes_ranks:
            if node_ranks.is_lost():
                return LaunchFailed("crashed", f"{node_ranks.name} was lost during {action}", self.log_tail())
        return None

    def _join_logs(self, logs: Mapping[str, str]) -> str:
        if len(self.nodes_ranks) == 1:
            return next(iter(logs.values()), "")
        return "\n".join(f"--- {name}\n{log}" for name, log in logs.items() if log)

    def _node_ranks_of(self, rank: int) -> NodeRanks:
        return self.nodes_ranks[rank // self.ranks_per_node]

    def _signal_ranks(self, number: signal.Signals) -> None:
        for node_ranks in self.nodes_ranks:
            node_ranks.signal(number)
