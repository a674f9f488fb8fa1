"""One worker group: the processes of one backend in one launch, from start to end."""

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from bench.errors import LaunchFailed
from bench.launch.channel import Channel, Closed, Listener, Message
from bench.spec import WorkerSpec

MONITOR_SECONDS = 2
"""How often torch elastic's agent looks at its workers; its own 0.1 s costs three groups 2 % of a core."""

SELECT_SECONDS = 5
"""How often a waiting coordinator looks whether the agent is still there."""

AGENT_SECONDS = 10
"""How long an agent may take to tidy up before it is killed."""

LOG_TAIL_BYTES = 4000


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
        timeout_s: the longest that anything asked of the group may take.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        world_size: int,
        folder: Path,
        variables: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        self.world_size = world_size
        self.timeout_s = timeout_s
        self.listener = Listener()
        self.channels: dict[int, Channel] = {}
        self.sessions: list[int] = []
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log.txt"
        spec.save(folder / "spec.json")
        # Frameworks leave files there that nobody removes when a process is killed.
        self.temporary = tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)
        with self.log.open("wb") as log:
            self.agent = subprocess.Popen(
                [
                    *(sys.executable, "-m", "bench.launch.agent", str(os.getpid())),
                    *("--standalone", f"--nproc-per-node={world_size}"),
                    *(f"--monitor-interval={MONITOR_SECONDS}", f"--log-dir={folder}"),
                    *("-m", "bench.worker", str(folder / "spec.json")),
                ],
                env={**variables, **self.listener.variables(), "TMPDIR": self.temporary.name},
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
        deadline = time.monotonic() + self.timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            while len(self.channels) < self.world_size:
                for _ in self._wait(selector, deadline, "start"):
                    if accepted := self.listener.accept():
                        channel, greeting = accepted
                        self.channels[greeting["rank"]] = channel
                        self.sessions.append(greeting["pid"])

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
                raise self._ended(rank, action) from None

    def answers(self, action: str, watch: Watch | None = None) -> list[Message]:
        """Wait for every rank's answer to `ask`, and meanwhile let `watch` do what it has to."""
        answers: dict[int, Message] = {}
        with selectors.DefaultSelector() as selector:
            for rank, channel in self.channels.items():
                selector.register(channel, selectors.EVENT_READ, rank)
            deadline = time.monotonic() + self.timeout_s
            while len(answers) < self.world_size:
                for key, _ in self._wait(selector, deadline, action, watch):
                    rank = key.data
                    try:
                        message = self.channels[rank].receive_part()
                    except Closed:
                        raise self._ended(rank, action) from None
                    if message is None:
                        continue
                    if error := message.get("error"):
                        raise LaunchFailed(error["status"], error["message"], error["details"])
                    answers[rank] = message
                    selector.unregister(key.fileobj)
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
        self.sessions.clear()  # closed twice, it must not reach processes that got these numbers since
        # The agent reaps its workers before it goes; killed, it would leave them to init as zombies.
        self.agent.terminate()
        try:
            self.agent.wait(AGENT_SECONDS)
        except subprocess.TimeoutExpired:
            self.agent.kill()
            self.agent.wait()
        self.temporary.cleanup()

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
            raise LaunchFailed(
                "crashed",
                f"the worker group ended during {action} with status {self.agent.returncode}",
            )
        if time.monotonic() >= deadline:
            raise LaunchFailed(
                "timeout",
                f"{action} took longer than measure.timeout_s={self.timeout_s:g} seconds",
            )
        return []

    def _ended(self, rank: int, action: str) -> LaunchFailed:
        return LaunchFailed("crashed", f"rank {rank} ended without a word during {action}")

    def _signal_ranks(self, number: signal.Signals) -> None:
        for session in self.sessions:  # torch elastic makes each worker the leader of its own session
            with suppress(ProcessLookupError):
                os.killpg(session, number)
