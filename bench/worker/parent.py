"""`python -m bench.worker.parent COORDINATOR_PID [ARCHITECTURE]`: forks agents, which fork ranks.

Started by `bench.launch.agents` with a socket as its standard input. With an ARCHITECTURE, which may be
empty, it first imports what the ranks of every backend need, that model's module included; the agent
(`bench.worker.agent`) imports what one backend needs besides. Without it, only torchrun is imported.
"""

import gc
import os
import selectors
import socket
import sys
import time
from contextlib import suppress
from importlib import import_module

from bench.launch.lifeline import die_with
from bench.worker import mapped_pages
from bench.worker.agent import garbage_collector_off, run_agent, tell


def main() -> None:
    """Fork an agent for each order, and report its process id and how it ends, until the coordinator ends."""
    coordinator, *architectures = sys.argv[1:]
    die_with(int(coordinator))
    begun = time.process_time()
    with garbage_collector_off(), suppress(Exception):  # agents and ranks say in their log what is wrong
        import torch.distributed.run  # noqa: F401

        for architecture in architectures:
            import_for_ranks(architecture)
    imported = time.process_time() - begun
    gc.freeze()
    pages = mapped_pages.find()
    with suppress(ConnectionError), socket.socket(fileno=0) as orders, selectors.DefaultSelector() as watched:
        orders.send(b".")  # for `wait_for_imports`; unread when the coordinator ends, it resets the socket
        watched.register(orders, selectors.EVENT_READ)
        while True:
            for key, _ in watched.select():
                if key.fileobj is not orders:
                    pid, report = key.data
                    tell(report, agent=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    watched.unregister(key.fileobj)
                    os.close(report)
                    os.close(key.fd)
                    continue
                order, files, *_ = socket.recv_fds(orders, 1, 3)
                if not order:
                    return
                parent = os.getpid()
                pid = os.fork()
                if pid == 0:
                    run_agent(*files, parent=parent, imported=imported, pages=pages)
                settings, log, report = files
                os.close(settings)
                os.close(log)
                tell(report, pid=pid)
                watched.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, report))


def import_for_ranks(architecture: str) -> None:
    """Import what every rank that trains with torch needs: no engine, and nothing that searches for a GPU."""
    import_module("bench.worker.rank.training")
    import_module("bench.worker.state.gradients")
    if architecture:
        from transformers.models.auto.configuration_auto import model_type_to_module_name

        name = model_type_to_module_name(architecture)
        import_module(f"transformers.models.{name}.modeling_{name}")


if __name__ == "__main__":
    main()
