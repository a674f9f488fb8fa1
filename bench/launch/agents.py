"""Torch elastic's agent of one group: forked, since importing torch in each of them takes seconds."""

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO

_forking: dict[str, tuple[subprocess.Popen[bytes], socket.socket]] = {}
"""By interpreter: the process that forks its agents, as long as this one lives, and where it takes orders."""


class Agent:
    """Starts on construction; has the methods of `subprocess.Popen` that are needed.

    Args:
        interpreter: the Python that runs torchrun.
        arguments: torchrun's.
        variables: all environment variables, of the ranks, too.
        log: where agent and ranks write.

    Raises:
        OSError: there is no process or no pipe, or the process that should fork it is just ending.

    Attributes:
        returncode: its exit status, below 0 the signal that killed it; None while it runs.
        exits: by rank, the exit statuses of those that failed by themselves.
    """

    def __init__(
        self, interpreter: str, arguments: Sequence[str], *, variables: Mapping[str, str], log: BinaryIO
    ) -> None:
        self.returncode: int | None = None
        self.exits: dict[int, int] = {}
        self._pid = 0
        self._unread = b""
        self._parent, orders = _forking_process(interpreter, variables, log)
        order = {
            "arguments": list(arguments),
            "variables": dict(variables),
            "cores": sorted(os.sched_getaffinity(0)),
        }
        report, its_end = os.pipe()
        self._report = os.fdopen(report, "rb", buffering=0)
        # A file without a name, since variables may be secret and long.
        with os.fdopen(its_end, "wb"), tempfile.TemporaryFile() as settings:
            settings.write(json.dumps(order).encode())
            settings.seek(0)
            socket.send_fds(orders, [b"."], [settings.fileno(), log.fileno(), its_end])

    @property
    def pid(self) -> int:
        """Its process id; waits until it has been forked. 0 if it never was."""
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
                told = json.loads(line)
                self._pid = told.get("pid", self._pid)
                self.exits |= {int(rank): status for rank, status in told.get("ranks", {}).items()}
                self.returncode = told.get("agent")
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
