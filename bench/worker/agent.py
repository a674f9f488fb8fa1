"""Torch elastic's agent of one group (torchrun), whose ranks are forked before it begins.

Torch elastic can fork functions by itself, but then reports only the first failed rank it finds, although
the cause may be another rank that was killed. And its store and its heartbeat are threads by then, whose
locks and sockets the ranks would inherit. So here torch elastic starts programs, as it always does, but
gets for each an already forked rank that waits for its environment (torch 2.6.0 and 2.13.0 alike).
"""

import gc
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from bench.launch.lifeline import AGENT_VARIABLE, die_with
from bench.worker import mapped_pages


@contextmanager
def garbage_collector_off() -> Iterator[None]:
    """Keep Python's cyclic garbage collector off.

    Importing torch and transformers makes hundreds of thousands of objects and hardly any garbage; searching
    them time and again is a fifth of the whole.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def tell(report: int, **what: Any) -> None:
    """Write a line into an agent's report; a coordinator that has closed the agent reads none."""
    with suppress(BrokenPipeError):
        os.write(report, json.dumps(what).encode() + b"\n")


def serve(import_all: Callable[[], object], imported: float = 0.0) -> int:
    """Import, then fork an agent for each order from standard input, and report its id and how it ends.

    `imported` is how long parents of this process have imported, in seconds. Returns 0 when they end.
    """
    begun = time.process_time()
    with garbage_collector_off(), suppress(Exception):  # a rank tries again, and reports why it fails
        import_all()
    imported += time.process_time() - begun
    gc.freeze()
    obstacle, pages = find_obstacle(), mapped_pages.find()
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
                order, files, *_ = socket.recv_fds(orders, 1, 4)
                if not order:
                    return 0
                this = os.getpid()
                pid = os.fork()
                if pid == 0:
                    run_agent(*files, parent=this, imported=imported, pages=pages, obstacle=obstacle)
                settings, log, report, *own = files
                for file in (settings, log, *own):
                    os.close(file)
                tell(report, pid=pid)
                watched.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, report))
    return 0


def run_agent(
    *files: int, parent: int, imported: float, pages: list[mapped_pages.Pages], obstacle: str
) -> NoReturn:
    """Be the agent of a group, or run a module, or import it and be a parent.

    `imported` and `pages` are what the parent has imported, in seconds and in memory; `obstacle` is why ranks
    cannot be forked from it. `files` are what `bench.launch.agents` sends.
    """
    settings, log, report, *orders = files
    status = 1
    ranks: list[ForkedRank] = []
    try:
        os.setsid()
        die_with(parent, "bench-parent" if orders else "bench-agent")
        os.dup2(orders[0] if orders else os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        with os.fdopen(settings, encoding="utf-8") as file:
            order = json.load(file)
        os.environ.clear()
        os.environ.update(order["variables"], **{AGENT_VARIABLE: str(os.getpid())})
        os.sched_setaffinity(0, order["cores"])
        tempfile.tempdir = None  # TMPDIR differs from the parent's
        if order["spec"]:
            ranks += fork_ranks(Path(order["spec"]), imported, pages, obstacle)
        if orders:
            mapped_pages.map_in(pages, copy=False)
            status = serve(lambda: import_module(f"bench.worker.{order['module']}"), imported)
        elif order["module"]:
            status = import_module(order["module"]).main(*order["arguments"])
        else:
            status = run_torchrun(order["arguments"], report, ranks)
    except BaseException:  # such as that torch cannot be imported
        sys.excepthook(*sys.exc_info())
    finally:
        for rank in ranks:  # torch elastic has ended those that it knows of
            rank.end()
        if status < 0:
            signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        os._exit(status)


def run_torchrun(arguments: list[str], report: int, ranks: list["ForkedRank"]) -> int:
    """Run torchrun with these arguments; its exit status, below 0 the signal that ended it."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous
    from torch.distributed.run import main as torchrun

    def end(number: int, _: object) -> NoReturn:  # until torch elastic installs its handler
        raise SignalException("ended", signal.Signals(number))

    if ranks:
        signal.signal(signal.SIGTERM, end)
        SubprocessHandler._popen = lambda handler, _, env: ranks[handler.local_rank_id].begin(env)
    # Names functions in a log that nobody keeps, and reads all modules' source for it: 0.6 s of a start.
    dynamic_rendezvous.get_method_name = lambda depth=2: sys._getframe(depth).f_code.co_name
    try:
        torchrun(arguments)
    except SignalException as caught:  # the coordinator's way to end a group: no cause for a traceback
        return -caught.sigval
    except ChildFailedError as error:
        tell(report, ranks={rank: failure.exitcode for rank, failure in error.failures.items()})
        return 1
    return 0


def fork_ranks(
    spec_path: Path, imported: float, pages: list[mapped_pages.Pages], obstacle: str
) -> list["ForkedRank"]:
    """The group's forked ranks on this node; none if there is an obstacle, which the log names then."""
    from bench.launch.spec import WorkerSpec
    from bench.worker.__main__ import run

    spec = WorkerSpec.load(spec_path)
    if obstacle:
        print(f"ranks of {spec.backend} are not forked, but started as programs: {obstacle}", flush=True)
        return []

    def work() -> None:
        mapped_pages.map_in(pages, copy=True)
        run(spec, imported=imported)

    return [ForkedRank(work) for _ in spec.cores]


def find_obstacle() -> str:
    """Why a fork of this process would not work; empty if it would."""
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        return f"what was imported has started threads ({threads - 1}), which they would not have"
    torch = sys.modules.get("torch")
    has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES") != ""  # where there is none, asking for it does no harm
    if torch is not None and has_gpu and (torch.cuda._initialized or torch.cuda._is_in_bad_fork()):
        return "what was imported has asked CUDA for a device, which they could not do again"
    return ""


class ForkedRank:
    """A rank that does `work` after `begin`; to torch elastic it is the `subprocess.Popen` of a program."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.returncode: int | None = None
        agent = os.getpid()
        self._orders, orders = socket.socketpair()
        with orders:
            self.pid = os.fork()
            if self.pid == 0:
                _be_rank(work, agent=agent, orders=orders)
        self._orders.recv(1)  # now it leads a new session, by which it is ended; or it has ended
        self._pidfd = os.pidfd_open(self.pid)

    def begin(self, environment: dict[str, str]) -> "ForkedRank":
        """Let the rank begin its work, with these environment variables."""
        with self._orders, suppress(OSError):  # it has been killed, as its exit status will say
            self._orders.sendall(json.dumps(environment).encode() + b"\n")
        return self

    def poll(self) -> int | None:
        """Its exit status if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status once it has ended; `subprocess.TimeoutExpired` if it still runs then."""
        if self.returncode is None:
            if not select.select([self._pidfd], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a rank", timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def end(self) -> None:
        """Kill the rank if it still runs, and reap it."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


def _be_rank(work: Callable[[], object], *, agent: int, orders: socket.socket) -> NoReturn:
    try:
        os.setsid()
        die_with(agent, "bench-rank")
        orders.send(b".")
        with orders, orders.makefile() as line:
            environment = json.loads(line.readline())
        os.environ.clear()
        os.environ.update(environment)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed()  # as in a new process: Python's own generator begins anew by itself
        work()
    except BaseException:
        traceback.print_exc()
    os._exit(1)
