"""A group's ranks on one machine: torch elastic's agent that starts them, their signals, their end."""

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from bench.launch import fate
from bench.launch.scratch import Scratch
from bench.launch.spec import WorkerSpec

MONITOR_SECONDS = 2
"""How often torch elastic's agent looks at its workers; its own 0.1 s costs three groups 2 % of a core."""

AGENT_SECONDS = 10  # how long an agent may take to tidy up before it is killed

LOG_TAIL_BYTES = 4000

_forking: dict[str, tuple[subprocess.Popen[bytes], socket.socket]] = {}
"""By interpreter: the process that forks its agents, as long as this one lives, and where it takes orders."""


@dataclass(frozen=True, kw_only=True)
class EndReport:
    """What is known of one node's ranks after a rank or torchrun has ended."""

    exits: dict[int, int]  # by rank, the statuses of those that failed by themselves, as far as torchrun says
    agent: int | None  # torchrun's own exit status; None if it still runs
    oom_killer: bool  # whether the kernel has killed a process there for want of memory since the start
    log: str  # the end of what agent and ranks wrote


class NodeRanks(Protocol):
    """Starts on construction: `LocalRanks` here, `bench.cluster.remote_ranks.RemoteRanks` on another node."""

    name: str  # what messages call the node; empty for a group on one machine

    def adopt(self, rank: int, pid: int) -> None:
        """A rank has reported; torch elastic makes each the leader of its own session."""

    def signal(self, number: int) -> None:
        """Send a signal to the session of every rank."""

    def has_ended(self) -> bool:
        """Whether the agent has, or its machine cannot be reached any more."""

    def is_lost(self) -> bool:
        """Whether its machine cannot be reached any more."""

    def wait_for_end(self, seconds: float) -> EndReport:
        """What is known once the agent has ended, or so many seconds later."""

    def states(self) -> str:
        """What each rank does at this moment, in words."""

    def log_tail(self) -> str:
        """The end of what the agent and the ranks wrote."""

    def terminate(self) -> None:
        """Ask the agent to end."""

    def close(self) -> None:
        """End every process, by force where it is still there. May be called twice."""


class LocalRanks:
    """Ranks on this machine; `arguments` tell torchrun how many there are and where."""

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        arguments: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        interpreter: str,
        name: str = "",
    ) -> None:
        self.name = name
        self.pids: dict[int, int] = {}  # by rank
        self._oom_kills = fate.oom_kills()
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log.txt"
        spec.save(folder / "spec.json")
        with ExitStack() as undo:  # what a failing start has opened so far
            # Frameworks leave files there that nobody removes when a process is killed.
            self.scratch = Scratch()
            undo.callback(self.scratch.remove)
            with self.log.open("wb") as log:
                self.agent = Agent(
                    interpreter,
                    [
                        *(*arguments, f"--monitor-interval={MONITOR_SECONDS}", f"--log-dir={folder}"),
                        *("-m", "bench.worker", str(folder / "spec.json")),
                    ],
                    variables={**variables, "TMPDIR": str(self.scratch.path)},
                    log=log,
                )
            undo.pop_all()

    def adopt(self, rank: int, pid: int) -> None:
        """Remember a rank that has reported, so that signals reach it."""
        self.pids[rank] = pid

    def signal(self, number: int) -> None:
        """Send a signal to every rank's session."""
        for session in self.pids.values():
            with suppress(ProcessLookupError):
                os.killpg(session, number)

    def has_ended(self) -> bool:
        """Whether the agent has ended."""
        return self.agent.poll() is not None

    def is_lost(self) -> bool:
        """Return False: this machine is here."""
        return False

    def wait_for_end(self, seconds: float) -> EndReport:
        """Wait for torchrun to end; wake paused ranks first, so that they can end."""
        self.signal(signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            self.agent.wait(seconds)
        return EndReport(
            exits=self.agent.exits,
            agent=self.agent.returncode,
            oom_killer=self._oom_kills != fate.oom_kills(),
            log=self.log_tail(),
        )

    def states(self) -> str:
        """Return what each rank does at this moment, in words."""
        return fate.states(self.pids)

    def log_tail(self) -> str:
        """Return the end of the log."""
        try:
            with self.log.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - LOG_TAIL_BYTES))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def terminate(self) -> None:
        """Ask the agent to end."""
        self.agent.terminate()

    def close(self) -> None:
        """End every process; the agent reaps its ranks first, and killed would leave them as zombies."""
        self.signal(signal.SIGKILL)
        self.pids.clear()  # closed twice, it must not reach processes that got these numbers since
        self.agent.terminate()
        try:
            self.agent.wait(AGENT_SECONDS)
        except subprocess.TimeoutExpired:
            self.agent.kill()
            self.agent.wait()
        self.scratch.remove()


class Agent:
    """Torch elastic's agent of one group: forked, since importing torch in each of them takes seconds.

    Starts on construction; has the methods of `subprocess.Popen` that are needed.

    Args:
        interpreter: the Python that runs torchrun.
        arguments: torchrun's.
        variables: all environment variables, of the ranks, too.
        log: where agent and ranks write.

    Raises:
        OSError: there is no process or no pipe, or the process that should fork it is just ending.
    """

    def __init__(
        self, interpreter: str, arguments: Sequence[str], *, variables: Mapping[str, str], log: BinaryIO
    ) -> None:
        self.returncode: int | None = None  # below 0 the signal that killed it; None while it runs
        self.exits: dict[int, int] = {}  # by rank, the exit statuses of those that failed by themselves
        self._pid = 0
        self._unread = b""
        self._parent, orders = _forking_process(interpreter, variables, log)
        cores = sorted(os.sched_getaffinity(0))
        order = {"arguments": list(arguments), "variables": dict(variables), "cores": cores}
        report, its_end = os.pipe()
        self._report = os.fdopen(report, "rb", buffering=0)
        # A file without a name, since variables may be secret and long.
        with os.fdopen(its_end, "wb"), tempfile.TemporaryFile() as settings:
            settings.write(json.dumps(order).encode())
            settings.seek(0)
            socket.send_fds(orders, [b"."], [settings.fileno(), log.fileno(), its_end])

    @property
    def pid(self) -> int:
        """The agent's process id, for which this waits until it has been forked; 0 if it never was."""
        while not self._pid and self.returncode is None:
            self._read(None)
        return self._pid

    def poll(self) -> int | None:
        """Return the exit status if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its exit status.

        Raises:
            subprocess.TimeoutExpired: it runs after `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not self._read(left) and left == 0:
                raise subprocess.TimeoutExpired("torchrun", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None and self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it by force."""
        self.send_signal(signal.SIGKILL)

    def _read(self, seconds: float | None) -> bool:
        """Read what is reported within so many seconds, None for any time; False if that is nothing."""
        if not select.select([self._report], [], [], seconds)[0]:
            return False
        if chunk := self._report.read(1 << 16):
            *lines, self._unread = (self._unread + chunk).split(b"\n")
            for line in lines:
                reported = json.loads(line)
                self._pid = reported.get("pid", self._pid)
                self.exits |= {int(rank): status for rank, status in reported.get("ranks", {}).items()}
                self.returncode = reported.get("agent")
        else:  # the process that forked it has ended, and it with that
            self.returncode = self._parent.wait()
        if self.returncode is not None:
            self._report.close()
        return True


def _forking_process(
    interpreter: str, variables: Mapping[str, str], log: BinaryIO
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Find or start the process that forks this interpreter's agents."""
    process, orders = _forking.get(interpreter, (None, None))
    if process is None or orders is None or process.poll() is not None:
        orders, its_end = socket.socketpair()
        with its_end:
            process = subprocess.Popen(
                [interpreter, "-m", "bench.launch.torchrun_agent", str(os.getpid())],
                env=dict(variables),
                stdin=its_end.fileno(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # the terminal's Ctrl-C is for the coordinator alone
            )
        _forking[interpreter] = process, orders
    return process, orders
