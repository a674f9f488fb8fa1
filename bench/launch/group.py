"""One worker group: the processes of one backend in one launch, from start to end."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from bench.errors import LaunchFailed
from bench.launch import fate
from bench.launch.agent import EXITS_VARIABLE
from bench.launch.channel import Channel, Closed, Listener, Message
from bench.launch.scratch import Scratch
from bench.spec import WorkerSpec

MONITOR_SECONDS = 2
"""How often torch elastic's agent looks at its workers; its own 0.1 s costs three groups 2 % of a core."""

SELECT_SECONDS = 5
"""How often a waiting coordinator looks whether the agent is still there."""

AGENT_SECONDS = 10
"""How long an agent may take to tidy up before it is killed."""

LOG_TAIL_BYTES = 4000

SECONDS_FOR_THE_CAUSE = 1.0
"""After one rank's trouble, how long the others may take to tell theirs, which may be the cause of it."""


class Watch(Protocol):
    """Something to do now and then while a group works; `bench.telemetry.sampler.Sampler` is one."""

    def seconds_until_due(self) -> float:
        """How long to wait before `sample`."""

    def sample(self) -> None:
        """Do it."""


class Group:
    """Starts on construction; `connect` waits for its ranks; `close` leaves no process behind.

    Args:
        spec: what the workers are told.
        world_size: number of ranks.
        folder: where the spec and the log go.
        variables: the workers' environment variables.
        timeout_s: the longest that all that is asked of the group may take together.
        interpreter: the Python that runs it.
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
    ) -> None:
        self.world_size = world_size
        self.interpreter = interpreter
        self.timeout_s = timeout_s
        self.seconds_left = timeout_s
        self.listener = Listener()
        self.channels: dict[int, Channel] = {}
        self.pids: dict[int, int] = {}  # by rank; torch elastic makes each the leader of its own session
        self._oom_kills = fate.oom_kills()
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log.txt"
        spec.save(folder / "spec.json")
        with ExitStack() as undo:  # what a failing start has opened so far
            undo.callback(self.listener.close)
            # Frameworks leave files there that nobody removes when a process is killed.
            self.scratch = Scratch()
            undo.callback(self.scratch.remove)
            self._exits, last_words = os.pipe()
            os.set_blocking(self._exits, False)
            undo.callback(os.close, self._exits)
            try:
                self.agent = self._start_agent(folder, variables, last_words)
            finally:
                os.close(last_words)
            undo.pop_all()

    def _start_agent(
        self, folder: Path, variables: Mapping[str, str], last_words: int
    ) -> "subprocess.Popen[bytes]":
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [
                    *(self.interpreter, "-m", "bench.launch.agent", str(os.getpid())),
                    *("--standalone", f"--nproc-per-node={self.world_size}"),
                    *(f"--monitor-interval={MONITOR_SECONDS}", f"--log-dir={folder}"),
                    *("-m", "bench.worker", str(folder / "spec.json")),
                ],
                env={
                    **variables,
                    **self.listener.variables(),
                    "TMPDIR": str(self.scratch.path),
                    EXITS_VARIABLE: str(last_words),
                },
                pass_fds=(last_words,),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # the terminal's Ctrl-C is for the coordinator alone
            )

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Wait until every rank has connected and waits for a request.

        Raises:
            LaunchFailed: they did not come.
        """
        with self._within_the_limit() as deadline, selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            while len(self.channels) < self.world_size:
                for _ in self._wait(selector, deadline, "start"):
                    if accepted := self.listener.accept():
                        channel, greeting = accepted
                        self.channels[greeting["rank"]] = channel
                        self.pids[greeting["rank"]] = greeting["pid"]

    def request(self, action: str, watch: Watch | None = None, **arguments: Any) -> list[Message]:
        """Ask every rank for the same; their answers in the order of the ranks.

        Raises:
            LaunchFailed: a rank failed, ended or took longer than the time limit.
        """
        self.ask(action, **arguments)
        return self.answers(action, watch)

    def ask(self, action: str, **arguments: Any) -> None:
        """Send a request without waiting for the answers."""
        self._signal_ranks(signal.SIGCONT)
        for rank, channel in self.channels.items():
            try:
                channel.send({"do": action, **arguments})
            except Closed:
                raise self._cause({rank: None}, action) from None

    def answers(self, action: str, watch: Watch | None = None) -> list[Message]:
        """Wait for every rank's answer to `ask`, and meanwhile let `watch` do what it has to."""
        answers: dict[int, Message] = {}
        troubles: dict[int, LaunchFailed | None] = {}  # None: it ended without a word
        told_by: float | None = None  # when the last trouble must have been told, from the first one on
        with self._within_the_limit() as deadline, selectors.DefaultSelector() as selector:
            for rank, channel in self.channels.items():
                selector.register(channel, selectors.EVENT_READ, rank)
            while selector.get_map():
                if told_by is None:
                    ready = self._wait(selector, deadline, action, watch)
                elif not (ready := selector.select(max(0.0, told_by - time.monotonic()))):
                    break
                for key, _ in ready:
                    rank = key.data
                    try:
                        message = self.channels[rank].receive_part()
                    except Closed:
                        message, troubles[rank] = {}, None
                    if message is None:
                        continue
                    selector.unregister(key.fileobj)
                    if error := message.get("error"):
                        troubles[rank] = LaunchFailed(error["status"], error["message"], error["details"])
                    answers[rank] = message
                if troubles and told_by is None:
                    told_by = time.monotonic() + SECONDS_FOR_THE_CAUSE
        if troubles:
            raise self._cause(troubles, action)
        return [answers[rank] for rank in range(self.world_size)]

    def pause(self) -> None:
        """Stop the ranks, which all wait, until they are asked for something again.

        They sleep in a read, but gloo's event loops would still wake a hundred times a second, for half a
        per cent of a core with two waiting groups.
        """
        self._signal_ranks(signal.SIGSTOP)

    def log_tail(self) -> str:
        """The end of what the agent and the ranks wrote."""
        try:
            with self.log.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - LOG_TAIL_BYTES))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def end(self) -> None:
        """Let the ranks end by themselves."""
        self._signal_ranks(signal.SIGCONT)
        for channel in self.channels.values():
            try:
                channel.send({"do": "end"})
                channel.socket.settimeout(10)
                channel.receive()
            except (Closed, TimeoutError):
                continue
        self.agent.terminate()

    def close(self) -> None:
        """End every process of the group, by force where it is still there."""
        for channel in self.channels.values():
            channel.close()
        self.listener.close()
        self._signal_ranks(signal.SIGKILL)
        self.pids.clear()  # closed twice, it must not reach processes that got these numbers since
        # The agent reaps its workers before it goes; killed, it would leave them to init as zombies.
        self.agent.terminate()
        try:
            self.agent.wait(AGENT_SECONDS)
        except subprocess.TimeoutExpired:
            self.agent.kill()
            self.agent.wait()
        if self._exits >= 0:
            os.close(self._exits)
            self._exits = -1
        self.scratch.remove()

    @contextmanager
    def _within_the_limit(self) -> Iterator[float]:
        """The moment at which the launch's time is over; what is done until then is taken off it."""
        start = time.monotonic()
        try:
            yield start + self.seconds_left
        finally:
            self.seconds_left -= time.monotonic() - start

    def _wait(
        self, selector: selectors.BaseSelector, deadline: float, action: str, watch: Watch | None = None
    ) -> list[Any]:
        patience = min(SELECT_SECONDS, deadline - time.monotonic())
        if watch is not None:
            watch.sample()
            patience = min(patience, watch.seconds_until_due())
        ready = selector.select(max(0.0, patience))
        if ready:
            return ready
        if self.agent.poll() is not None:
            raise self._cause(dict.fromkeys(self.pids), action)
        if time.monotonic() >= deadline:
            raise LaunchFailed(
                "timeout",
                f"{action}: this launch took longer than measure.timeout_s={self.timeout_s:g} seconds in all"
                + (f"; {fate.states(self.pids)}" if self.pids else ""),
            )
        return []

    def _cause(self, troubles: Mapping[int, LaunchFailed | None], action: str) -> LaunchFailed:
        """The trouble that explains the others'; None: the rank ended without a word."""
        told = [trouble for trouble in troubles.values() if trouble is not None]
        particular = [trouble for trouble in told if trouble.status != "crashed"]
        if particular or (told and len(told) == len(troubles)):
            return (particular or told)[0]
        self._signal_ranks(signal.SIGCONT)  # a stopped rank would not follow the agent's request to end
        with suppress(subprocess.TimeoutExpired):
            self.agent.wait(AGENT_SECONDS)
        return fate.explain(
            action,
            told=told,
            silent=[rank for rank, trouble in troubles.items() if trouble is None],
            exits=self._exits_of_ranks(),
            agent=self.agent.returncode,
            log=self.log_tail(),
            oom_killer=self._oom_kills != fate.oom_kills(),
        )

    def _exits_of_ranks(self) -> dict[int, int]:
        """The exit status of each rank that failed by itself, if the agent could still tell."""
        try:
            words = os.read(self._exits, 1 << 16)
        except BlockingIOError:  # it still runs
            return {}
        return {int(rank): status for rank, status in json.loads(words or b"{}").items()}

    def _signal_ranks(self, number: signal.Signals) -> None:
        for session in self.pids.values():
            with suppress(ProcessLookupError):
                os.killpg(session, number)
