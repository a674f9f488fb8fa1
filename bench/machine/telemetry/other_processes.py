"""Scans the ranks' cores for other processes: how much CPU time all others take, and which they are.

A scan takes some hundredths of a CPU second, so it runs between blocks and launches, never in a block.
"""

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from bench.machine.telemetry.cpu import core_time, cpu_seconds

LEAST_SHARE = 0.05  # the share of a core below which a process is not named

MOST_NAMED = 3

Key = tuple[int, float]  # a process: its id, and when it started, since ids are used again


@dataclass(frozen=True)
class Process:
    """One process at a moment, and the CPU seconds that it has used since it started."""

    name: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Competitor:
    """A process that takes `cores` cores."""

    name: str
    pid: int
    cores: float

    def __str__(self) -> str:
        name = "".join(letter for letter in self.name if letter.isprintable())
        return f"{name} (pid {self.pid}) {self.cores:.0%} of a core".replace("%", " %")


@dataclass(frozen=True, kw_only=True)
class CoreScan:
    """What other processes did during a scan of the cores."""

    taken_seconds: float | None  # CPU seconds that they had of the cores; None where the kernel has no count
    competitors: tuple[Competitor, ...]  # those with the largest shares, as far as they can be seen from here


Scan = Callable[[float], CoreScan]  # takes the duration of the scan in seconds


def scan_cores(cores: Collection[int], seconds: float) -> CoreScan:
    """Watch these cores for some seconds in which this process, and all that it has started, do nothing."""
    before, busy, own, start = read_processes(), core_time(cores), cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - start
    now, own_now = core_time(cores), cpu_seconds()
    taken = None if now is None or busy is None else max(0.0, now.busy - busy.busy - (own_now - own))
    ours = own_processes()
    competitors = find_competitors(
        before, read_processes(), elapsed, lambda pid: pid in ours or _is_elsewhere(pid, cores)
    )
    return CoreScan(taken_seconds=taken, competitors=competitors)


def find_competitors(
    before: Mapping[Key, Process],
    after: Mapping[Key, Process],
    seconds: float,
    is_left_out: Callable[[int], bool],
) -> tuple[Competitor, ...]:
    """Return the processes with the largest shares in the seconds between two moments, the largest first.

    A process missing from the first moment has started since. `is_left_out` is asked by its id.
    """
    new = Process(name="", seconds=0.0)
    competitors = [
        Competitor(name=process.name, pid=pid, cores=cores)
        for (pid, began), process in after.items()
        if (cores := (process.seconds - before.get((pid, began), new).seconds) / seconds) >= LEAST_SHARE
        and not is_left_out(pid)
    ]
    return tuple(sorted(competitors, key=lambda competitor: -competitor.cores)[:MOST_NAMED])


def describe_competitors(competitors: Collection[Competitor]) -> str:
    """Return `chrome (pid 123) 80 % of a core, make (pid 7) 20 % of a core`."""
    return ", ".join(map(str, competitors)) or "which ones cannot be seen from here"


def read_processes() -> dict[Key, Process]:
    """Return every process that can be seen, with the CPU seconds that it has used."""
    import psutil  # here, since it takes long and is wanted on a busy machine only

    infos = (process.info for process in psutil.process_iter(["pid", "create_time", "name", "cpu_times"]))
    return {
        (info["pid"], info["create_time"]): Process(
            name=info["name"] or "", seconds=sum(info["cpu_times"][:2])
        )
        for info in infos
        if info["cpu_times"] is not None  # user, system, …; None where reading it is not permitted
    }


def own_processes() -> set[int]:
    """Return this process and all that it has started, such as torchrun and the ranks."""
    import psutil

    return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}


def _is_elsewhere(pid: int, cores: Collection[int]) -> bool:
    try:
        return not os.sched_getaffinity(pid) & set(cores)
    except OSError:  # it has ended
        return False
