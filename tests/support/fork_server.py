"""Ranks that are forked from a process which has imported everything, since their imports take seconds.

For tests of what ranks do. How they are really started, by torch elastic in interpreters of their own, is
shown by tests/real/test_group.py, test_failures.py and all that run the command.

`python -m tests.support.fork_server` serves the listening socket that is its standard input.
"""

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from bench.launch.lifeline import AGENT_VARIABLE, EXITS_VARIABLE, die_with
from bench.launch.local_ranks import LocalRanks
from bench.setup.checkout import ROOT

IMPORTED = (
    "bench.worker.rank.training",
    "bench.worker.engines.eager",
    "bench.worker.state.gradients",
    "bench.worker.sharding.zero1",
    "transformers.models.bert.modeling_bert",
)
ORTMODULE = "bench.worker.engines.ortmodule"
"""It patches torch, so that ranks without it come from a server without it."""

HELD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "DS_ACCELERATOR", "LD_PRELOAD", "PYTHONPATH")
"""Variables that are read before a rank is forked, so that they must be the server's."""

SECONDS_FOR_THE_CAUSE = 2
"""After a rank has failed, how long the others live on: torch elastic looks as often."""

_AGENT = """#!{python} -IS
import ctypes, json, os, signal, socket, sys

ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with the coordinator
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.connect({address!r})
signal.signal(signal.SIGTERM, lambda *_: server.shutdown(socket.SHUT_WR))
socket.send_fds(server, [json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode() + b"\\n"], [1])
exits = b"".join(iter(lambda: server.recv(1 << 16), b""))
if exits not in (b"", b"{{}}"):
    os.write(int(os.environ["{exits}"]), exits)
    sys.exit(1)
"""
"""What is started instead of torch elastic's agent: it lives as long, and writes the same into the pipe."""


@contextmanager
def forked_ranks(folder: Path) -> Iterator[Callable[..., LocalRanks]]:
    """What starts ranks in the place of `LocalRanks`: those of this stack on a CPU are forked."""
    servers: dict[bool, tuple[subprocess.Popen[bytes], str]] = {}

    def start(spec: Any, *, interpreter: str, variables: Any, **others: Any) -> LocalRanks:
        if interpreter != sys.executable or spec.device != "cpu" or spec.engine == "on_device":
            return LocalRanks(spec, interpreter=interpreter, variables=variables, **others)
        with_ort = spec.engine == "ortmodule"
        if with_ort not in servers:
            servers[with_ort] = _start_server(folder / f"server-{with_ort}", variables, with_ort)
        return LocalRanks(spec, interpreter=servers[with_ort][1], variables=variables, **others)

    try:
        yield start
    finally:
        for server, _ in servers.values():
            server.kill()
            server.wait()


def _start_server(
    folder: Path, variables: Mapping[str, str], with_ort: bool
) -> tuple[subprocess.Popen[bytes], str]:
    """The server, and the program that stands for an interpreter."""
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen(16)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", *([ORTMODULE] if with_ort else [])],
            stdin=listener,
            cwd=ROOT,
            env={**variables, "TORCHINDUCTOR_COMPILE_THREADS": "1"},  # else its import starts threads
            start_new_session=True,
        )
    agent = folder / "agent"
    agent.write_text(
        _AGENT.format(python=sys.executable, address=str(folder / "socket"), exits=EXITS_VARIABLE)
    )
    agent.chmod(0o700)
    return server, str(agent)


def main() -> None:
    """Import everything once, then fork a keeper for each group that is asked for."""
    die_with(os.getppid())
    for name in (*IMPORTED, *sys.argv[1:]):
        with suppress(ImportError):  # what is missing is for the ranks to say
            import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "threads would be missing in what is forked"
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how keepers ended
    listener, server = socket.socket(fileno=0), os.getpid()
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            die_with(server)
            _keep_group(connection)
        connection.close()


def _keep_group(agent: socket.socket) -> NoReturn:
    """Fork the ranks, and tell the agent how they ended; when it ends they are killed."""
    import torch.distributed

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, (log, *_), *_ = socket.recv_fds(agent, 1 << 16, 1)
    while not request.endswith(b"\n"):
        request += agent.recv(1 << 16)
    arguments, variables, folder = json.loads(request)
    os.chdir(folder)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in HELD:
        assert variables.get(name) == os.environ.get(name), f"{name} was another when torch was imported"
    world_size = int(next(one for one in arguments if "--nproc-per-node=" in one).partition("=")[2])
    variables |= {AGENT_VARIABLE: str(os.getpid()), "WORLD_SIZE": str(world_size)}
    port_read, port_write = os.pipe()
    running = {}
    for rank in range(world_size):
        if (pid := os.fork()) == 0:
            agent.close()
            _become_rank(arguments[-1], variables | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, port_read)
        running[os.pidfd_open(pid)] = rank, pid
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.write(port_write, b"%05d" % store.port * world_size)
    exits: dict[int, int] = {}
    kill_at = None
    with selectors.DefaultSelector() as selector:
        for one in (agent, *running):
            selector.register(one, selectors.EVENT_READ)
        while running:
            ready = selector.select(None if kill_at is None else max(0.0, kill_at - time.monotonic()))
            for key, _ in ready:
                if key.fileobj is agent:
                    selector.unregister(agent)
                    kill_at = time.monotonic()
                    continue
                selector.unregister(key.fileobj)
                rank, pid = running.pop(key.fd)
                if (status := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) and kill_at is None:
                    exits[rank] = status
                    kill_at = time.monotonic() + SECONDS_FOR_THE_CAUSE
            if kill_at is not None and time.monotonic() >= kill_at:
                for _, pid in running.values():
                    os.kill(pid, signal.SIGKILL)
                kill_at = None if not running else float("inf")
    with suppress(OSError):
        agent.sendall(json.dumps(exits).encode())
    os._exit(0)


def _become_rank(spec: str, variables: Mapping[str, str], port: int) -> NoReturn:
    """Do what `python -m bench.worker SPEC.json` does, which ends this process."""
    from bench.worker import __main__ as worker

    try:
        os.setsid()
        os.environ.clear()
        os.environ.update(
            variables,
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=os.read(port, 5).decode(),
            TORCHELASTIC_USE_AGENT_STORE="True",
            TORCHELASTIC_RESTART_COUNT="0",
        )
        tempfile.tempdir = None
        sys.argv = [worker.__file__, spec]
        worker.main()
    except BaseException:
        traceback.print_exc()
    os._exit(1)


if __name__ == "__main__":
    main()
