"""Torch elastic's agents (torchrun), forked from this process, which imports torch once for all of them.

`python -m bench.launch.torchrun_agent COORDINATOR_PID`, started by `bench.launch.local_ranks` with a socket
as its standard input. The ranks are programs that an agent starts afresh: nothing is imported for them here.
"""

import gc
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from typing import Any

from bench.launch.importing import garbage_collector_off
from bench.launch.lifeline import AGENT_VARIABLE, die_with


def main() -> None:
    """Fork an agent for each order, and report its process id and how it ends, until the coordinator ends."""
    die_with(int(sys.argv[1]))
    with garbage_collector_off(), suppress(Exception):  # each agent says in its own log what is wrong with it
        import torch.distributed.run  # noqa: F401
    gc.freeze()
    with socket.socket(fileno=0) as orders, selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not orders:
                    pid, report = key.data
                    tell(report, agent=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    selector.unregister(key.fileobj)
                    os.close(report)
                    os.close(key.fd)
                    continue
                order, files, *_ = socket.recv_fds(orders, 1, 3)
                if not order:
                    return
                parent = os.getpid()
                pid = os.fork()
                if pid == 0:
                    run_agent(*files, parent=parent)
                settings, log, report = files
                os.close(settings)
                os.close(log)
                tell(report, pid=pid)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, report))


def tell(report: int, **what: Any) -> None:
    """Write a line into an agent's report; a coordinator that has closed the agent reads none."""
    with suppress(BrokenPipeError):
        os.write(report, json.dumps(what).encode() + b"\n")


def run_agent(settings: int, log: int, report: int, *, parent: int) -> None:
    """Be the agent of a group until the process ends; ranks that failed by themselves are reported."""
    status = 1
    try:
        os.setsid()
        die_with(parent)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        with open(settings, encoding="utf-8") as file:
            order = json.load(file)
        os.environ.clear()
        os.environ.update(order["variables"], **{AGENT_VARIABLE: str(os.getpid())})
        os.sched_setaffinity(0, order["cores"])
        tempfile.tempdir = None  # TMPDIR is another one now
        status = run_torchrun(order["arguments"], report)
    except BaseException:  # such as that torch cannot be imported
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def run_torchrun(arguments: list[str], report: int) -> int:
    """Run torchrun with these arguments; its exit status."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    try:
        torchrun(arguments)
    except SignalException as caught:  # the coordinator's way to end a group: no cause for a traceback
        signal.signal(caught.sigval, signal.SIG_DFL)
        os.kill(os.getpid(), caught.sigval)
    except ChildFailedError as error:
        tell(report, ranks={rank: failure.exitcode for rank, failure in error.failures.items()})
        return 1
    return 0


if __name__ == "__main__":
    main()
