"""Torch elastic's agents (torchrun), and the processes that fork them, in which everything is imported once.

A parent (`PARENT`) serves a single launch, and the look at the user's model before the first
(`run_module`): the next launch begins with another address layout and another allocator.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from bench.launch.channel import SOCKET_VARIABLE, TOKEN_VARIABLE

OF_ONE_GROUP: tuple[str, ...] = (SOCKET_VARIABLE, TOKEN_VARIABLE, "TMPDIR")
"""Variables that no import reads; groups that differ in any other share no parent."""

PARENT = "bench.worker.parent"  # the program of those that are not forked

CORES = os.sched_getaffinity(0)
"""All that this process may use at its start, before it leaves some to the ranks: imports run on any."""

MOST_IDLE = 8  # parents without a running agent that `keep_parents` keeps: 400 MiB, which their forks share

_parents: dict[object, "_Parent"] = {}
"""The parents that may fork more agents; the parent whose last agent ended most recently is the last."""

_keepers = 0  # how many `keep_parents` blocks are open now

_spares: dict[object, "_Parent"] = {}  # at most one, for the next launch: imports keep a single core busy

_needs_spare = False  # whether a launch follows the one that `keep_parents` is open for


class _Parent:
    """Forks agents: `start` starts it, with the socket that its orders come from."""

    def __init__(self, start: "Callable[[socket.socket], subprocess.Popen[bytes] | Agent]") -> None:
        self.agents = 0  # that it has forked and that have not ended
        self.orders, its_end = socket.socketpair()
        with its_end:
            self.process = start(its_end)

    def end(self) -> None:
        """End the parent, and with it all that it has forked."""
        self.orders.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def _find_parent(
    interpreter: str,
    variables: Mapping[str, str],
    architecture: str | None,
    imports: Sequence[str],
    log: BinaryIO,
) -> _Parent:
    """The parent with these variables and imports; it is started if there is none, and `log` gets its words.

    Each of `imports` has a parent that is forked from the parent of those before it.
    """
    shared = {name: value for name, value in variables.items() if name not in OF_ONE_GROUP}

    def start(orders: socket.socket) -> "subprocess.Popen[bytes] | Agent":
        if imports:
            more: Any = {"architecture": architecture, "imports": imports[:-1], "module": imports[-1]}
            return Agent(interpreter, [], variables=shared, log=log, orders=orders, **more)
        command = [interpreter, "-m", PARENT, str(os.getpid())]
        process = subprocess.Popen(
            command if architecture is None else [*command, architecture],
            env=shared,
            stdin=orders.fileno(),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # the terminal's Ctrl-C is for the coordinator alone
        )
        with suppress(OSError):  # it has ended, as its first order will show, or stays on our cores
            os.sched_setaffinity(process.pid, CORES)
        return process

    key = (interpreter, architecture, tuple(imports), tuple(sorted(shared.items())))
    if key not in _parents or _parents[key].process.poll() is not None:
        parent = _spares.pop(key, None)
        if parent is None or parent.process.poll() is not None:
            parent = _Parent(start)
        _parents[key] = parent
        if _needs_spare and _keepers == 1 and not _spares and not imports:
            _spares[key] = _Parent(start)
    return _parents[key]


def wait_for_imports() -> None:
    """Wait until the next launch's parent has imported everything: from then on it takes no core time."""
    for parent in _spares.values():
        parent.orders.recv(1, socket.MSG_PEEK)


def end_spares() -> None:
    """End the parent that no launch has taken."""
    while _spares:
        _spares.popitem()[1].end()


def _end_idle(most: int) -> None:
    """End the parents without a running agent, except for the `most` latest ones."""
    while len(idle := [key for key, parent in _parents.items() if not parent.agents]) > most:
        _parents.pop(idle[0]).end()  # after which its own parent may be idle


@contextmanager
def keep_parents(*, is_last: bool = True) -> Iterator[None]:
    """Let parents live until the end of the `with` block: groups in it that follow each other share them.

    Unless it `is_last`, the parent of the next block starts beside the first of this one; see `end_spares`.
    """
    global _keepers, _needs_spare
    _keepers += 1
    _needs_spare = not is_last
    try:
        yield
    finally:
        _keepers -= 1
        if not _keepers:
            _end_idle(0)


class Agent:
    """Torch elastic's agent of one group; has the needed methods of `subprocess.Popen`.

    Starts on construction, or raises OSError. Of ranks that are forked in place of torchrun's program there
    is a `spec`, and the `architecture` of their model in transformers' words. Its parent has imported the
    `imports`, modules of `bench.worker`. With a `module` its `main` runs in place of torchrun's; with
    `orders` it is such a parent, and imports its `module`.
    """

    def __init__(
        self,
        interpreter: str,
        arguments: Sequence[str],
        *,
        variables: Mapping[str, str],
        log: BinaryIO,
        spec: Path | None = None,
        architecture: str | None = None,
        imports: Sequence[str] = (),
        module: str = "",
        orders: socket.socket | None = None,
    ) -> None:
        self.returncode: int | None = None  # below 0 the signal that killed it; None while it runs
        self.exits: dict[int, int] = {}  # by rank, the exit statuses of those that failed by themselves
        self._pid = 0
        self._unread = b""
        self._parent = _find_parent(interpreter, variables, architecture, imports, log)
        order = {
            "arguments": list(arguments),
            "variables": dict(variables),
            "cores": sorted(CORES if orders else os.sched_getaffinity(0)),
            "spec": spec and str(spec),
            "module": module,
        }
        report, its_end = os.pipe()
        self._report = os.fdopen(report, "rb", buffering=0)
        # A file without a name, since variables may be secret and long.
        with os.fdopen(its_end, "wb"), tempfile.TemporaryFile() as settings:
            settings.write(json.dumps(order).encode())
            settings.seek(0)
            files = [settings.fileno(), log.fileno(), its_end, *([orders.fileno()] if orders else [])]
            socket.send_fds(self._parent.orders, [b"."], files)
        self._parent.agents += 1

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
        """Return the exit status once it has ended; `subprocess.TimeoutExpired` if it still runs then."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not self._read(left) and left == 0:
                raise subprocess.TimeoutExpired("torchrun", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None and not self._pid and self._parent.agents == 1:
            # It still imports, and for this agent alone: that may take seconds.
            self._parent.process.send_signal(signal.SIGKILL)
        elif self.returncode is None and self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _read(self, seconds: float | None) -> bool:
        """Read what the parent reports within `seconds` (None: no limit); False if it reports nothing."""
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
            self.returncode = self._parent.process.wait()
        if self.returncode is not None:
            self._report.close()
            self._parent.agents -= 1
            for key in [key for key, parent in _parents.items() if parent is self._parent]:
                _parents[key] = _parents.pop(key)
            _end_idle(MOST_IDLE if _keepers else 0)
        return True


def run_module(
    module: str, arguments: Sequence[str], *, variables: Mapping[str, str], architecture: str, log: BinaryIO
) -> int:
    """Run a module's `main` where ranks begin, with all they import; its exit status.

    The first launch after it takes the parent over, if its ranks have the same variables and architecture.
    """
    with keep_parents():
        agent = Agent(
            sys.executable, arguments, variables=variables, log=log, architecture=architecture, module=module
        )
        try:
            status = agent.wait()
        except BaseException:
            agent.send_signal(signal.SIGKILL)
            raise
        if _keepers == 1:
            end_spares()
            _spares.update(_parents)
            _parents.clear()
    return status
