"""Reads CPU time, page faults and clocks: of this process, and of all processes on its cores."""

import ctypes
import multiprocessing
import os
import resource
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
CPUS = Path("/sys/devices/system/cpu")
_LIBC = ctypes.CDLL(None)


def cpu_seconds() -> float:
    """User + system seconds of this process, children waited for, and living ones of `multiprocessing`."""
    living = sum(process_seconds(child.pid) for child in multiprocessing.active_children() if child.pid)
    return living + sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def process_seconds(pid: int) -> float:
    """User + system seconds of all threads of another process, to the nanosecond; 0 if it has ended.

    /proc, and so psutil, counts in ticks of 10 ms. Source: POSIX, clock_getcpuclockid.
    """
    clock = ctypes.c_int()
    if _LIBC.clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        return 0.0
    try:
        return time.clock_gettime(clock.value)
    except OSError:  # it has ended in between
        return 0.0


def page_faults() -> int:
    """Page faults of this process that needed no disk: memory touched for the first time, mostly."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


@dataclass(frozen=True)
class CoreTime:
    """Seconds since the machine started, summed over some cores."""

    busy: float  # user, system and interrupt time of all processes
    stolen: float  # the hypervisor ran something else although a core was wanted


def core_time(cores: Collection[int], stat: Path = STAT) -> CoreTime | None:
    """What the kernel counted on `cores`, mostly in ticks of 10 ms; None where a core is not listed.

    In psutil's list a core that is off shifts the ones behind it. Source: Linux's filesystems/proc.rst.
    """
    try:
        lines = stat.read_text(encoding="ascii").splitlines()
        wanted = {f"cpu{core}" for core in cores}
        rows = [line.split() for line in lines if line.split(" ", 1)[0] in wanted]
        ticks = [[int(figure) for figure in row[1:9]] for row in rows]
    except (OSError, ValueError):
        return None
    if len(ticks) != len(wanted):
        return None
    second = os.sysconf("SC_CLK_TCK")
    # user nice system idle iowait irq softirq steal; a guest's time is already in user and nice
    busy = sum(user + nice + system + irq + softirq for user, nice, system, _, _, irq, softirq, _ in ticks)
    return CoreTime(busy=busy / second, stolen=sum(row[7] for row in ticks) / second)


def clock_mhz(cores: Collection[int], cpus: Path = CPUS) -> float | None:
    """The highest present clock of `cores`; None in most virtual machines, where psutil has a constant."""
    clocks = _read_of_each(cores, cpus, "cpufreq/scaling_cur_freq")
    return max(clocks) / 1000 if clocks else None


def throttle_count(cores: Collection[int], cpus: Path = CPUS) -> int | None:
    """How often `cores` have slowed down for heat since the machine started; None where it is not counted."""
    counts = _read_of_each(cores, cpus, "thermal_throttle/core_throttle_count")
    return sum(counts) if counts else None


def _read_of_each(cores: Collection[int], cpus: Path, place: str) -> list[int]:
    try:
        return [int((cpus / f"cpu{core}" / place).read_text(encoding="ascii")) for core in cores]
    except (OSError, ValueError):
        return []
