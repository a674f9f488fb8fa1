"""Ranks that are forked from a process which has imported everything, since their imports take seconds.

For tests of what ranks do. How they are really started, by torch elastic in interpreters of their own, is
shown by tests/real/test_group.py, test_failures.py, test_contributing.py and others.

`python -m tests.support.fork_server MODULE… -- -m bench.launch.torchrun_agent COORDINATOR_PID` imports the
modules and then forks agents as `bench.launch.torchrun_agent` does, which fork their ranks.
"""

import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

from bench.launch import group, torchrun_agent
from bench.launch.local_ranks import LocalRanks
from tests.support import pretended_gpu

IMPORTED = (
    "bench.worker.rank.training",
    "bench.worker.engines.eager",
    "bench.worker.state.gradients",
    "bench.worker.sharding.zero1",
    "transformers.models.bert.modeling_bert",
)
ORTMODULE = "bench.worker.engines.ortmodule"
"""It patches torch, so that ranks without it come from a process without it."""

READ_AT_IMPORT = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "DS_ACCELERATOR", "LD_PRELOAD", "PYTHONPATH")
"""Variables that a rank may not have otherwise than the process from which it is forked."""

SECONDS_FOR_THE_CAUSE = 2
"""After a rank has failed, how long the others live on: torch elastic looks as often."""

_INTERPRETER = """#!/bin/sh
exec {python} -m tests.support.fork_server {modules} -- "$@"
"""


@contextmanager
def forked_ranks(folder: Path) -> Iterator[None]:
    """In this process' groups the ranks of this stack are forked, but those that use a real GPU."""

    def start(spec: Any, *, interpreter: str, **others: Any) -> LocalRanks:
        on_cpu = spec.device == "cpu" or pretended_gpu.COUNT in os.environ
        if interpreter == sys.executable and on_cpu and spec.engine != "on_device":
            modules = (*IMPORTED, ORTMODULE) if spec.engine == "ortmodule" else IMPORTED
            interpreter = _script(folder, interpreter, modules)
        return LocalRanks(spec, interpreter=interpreter, **others)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(group, "LocalRanks", start)
        yield


def _script(folder: Path, interpreter: str, modules: Sequence[str]) -> str:
    """The program that is started in an interpreter's place.

    Never written again: a shell that another group has just started may not have read it yet.
    """
    path = folder / f"python-{len(modules)}"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(_INTERPRETER.format(python=interpreter, modules=" ".join(modules)))
        unfinished.chmod(0o700)
        unfinished.replace(path)
    return str(path)


def main() -> None:
    """Import everything once, and fork for as long as the coordinator lives."""
    end = sys.argv.index("--")
    for name in sys.argv[1:end]:
        import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "threads would be missing in what is forked"
    held = {name: os.environ.get(name) for name in READ_AT_IMPORT}

    def fork_ranks(arguments: list[str], report: int) -> int:
        for name, value in held.items():
            assert os.environ.get(name) == value, f"{name} was {value} when torch was imported"
        return _fork_ranks(arguments, report)

    torchrun_agent.run_torchrun = fork_ranks
    sys.argv = [torchrun_agent.__file__, sys.argv[-1]]
    torchrun_agent.main()


def _fork_ranks(arguments: list[str], report: int) -> int:
    """What torch elastic does with one group on one node: start the ranks, end all when one has failed."""
    import torch.distributed

    world_size = int(next(one for one in arguments if "--nproc-per-node=" in one).partition("=")[2])
    port, port_end = os.pipe()
    running = {}
    for rank in range(world_size):
        if (pid := os.fork()) == 0:
            _be_rank(rank, world_size, arguments[-1], port)
        running[os.pidfd_open(pid)] = rank, pid

    def end(number: int, _: object) -> None:
        kill_and_reap(pid for _, pid in running.values())  # as torch elastic does; nobody else would at once
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
    # Made now, since its thread would be missing in the ranks.
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.write(port_end, b"%05d" % store.port * world_size)
    exits: dict[int, int] = {}
    kill_at = float("inf")
    with selectors.DefaultSelector() as selector:
        for one in running:
            selector.register(one, selectors.EVENT_READ)
        while running:
            for key, _ in selector.select(max(0.0, kill_at - time.monotonic()) if exits else None):
                selector.unregister(key.fd)
                rank, pid = running.pop(key.fd)
                if status := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
                    exits[rank] = status
                    kill_at = min(kill_at, time.monotonic() + SECONDS_FOR_THE_CAUSE)
            if time.monotonic() >= kill_at:
                break
    if not exits:
        return 0
    kill_and_reap(pid for _, pid in running.values())
    torchrun_agent.tell(report, ranks=exits)
    return 1


def kill_and_reap(pids: Iterable[int]) -> None:
    """End these children of this process, so that nothing of them is left."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _be_rank(rank: int, world_size: int, spec: str, port: int) -> NoReturn:
    """Do what `python -m bench.worker SPEC.json` does, which ends this process."""
    from bench.worker import __main__ as worker

    try:
        os.setsid()
        os.environ.update(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(world_size),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=os.read(port, 5).decode(),
            TORCHELASTIC_USE_AGENT_STORE="True",
            TORCHELASTIC_RESTART_COUNT="0",
        )
        sys.argv = [worker.__file__, spec]
        worker.main()
    except BaseException:
        traceback.print_exc()
    os._exit(1)


if __name__ == "__main__":
    main()
