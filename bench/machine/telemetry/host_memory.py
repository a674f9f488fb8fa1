"""Measures the host memory of this process by phase, without sampling (Linux).

What training holds is anonymous memory, shared memory included. Pages of files, such as libraries, are
counted apart: how many of them a process has depends on what the kernel has cached, and in what portions.
psutil knows neither the peak (VmHWM) nor how to reset it.
"""

import re
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.machine.hardware import available_bytes, memory_bytes

RESERVED_SHARE, MOST_RESERVED = 0.1, 4 << 30
"""Memory left to everything else: this share of the machine's, and at most this many bytes."""

_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class HostMemory:
    """What a process has in memory, in bytes."""

    peak: int  # of both together, since the last reset (VmHWM)
    anonymous: int  # now: of no file, or shared between processes (RssAnon + RssShmem)
    files: int  # now: pages of files (RssFile)


def reset_host_peak() -> bool:
    """Start a phase: the peak becomes the present use (Linux's proc.rst). False where that is not allowed."""
    with suppress(OSError):
        _CLEAR_REFS.write_text("5")
        return True
    return False


def read_host_memory(status: Path = _STATUS) -> HostMemory | None:
    """The present use and the peak; None where /proc does not show them (Linux does since 4.5)."""
    with suppress(OSError, KeyError):
        size = _read_status(status)
        return HostMemory(size["VmHWM"], size["RssAnon"] + size["RssShmem"], size["RssFile"])
    return None


def limit_to_available(sharers: int) -> float:
    """Let this process, one of `sharers`, take its share of the memory that is left; the GiB of that share.

    The kernel refuses what is beyond it (RLIMIT_DATA: private writable memory, touched or not). Without a
    limit a machine stalls before its memory ends.
    """
    reserve = min(memory_bytes() * RESERVED_SHARE, MOST_RESERVED)
    share = max(0, int((available_bytes() - reserve) / sharers))
    with suppress(OSError, KeyError):
        used = _read_status(_STATUS)["VmData"]
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (used + share, hard))
    return share / 2**30


def _read_status(status: Path) -> dict[str, int]:
    sizes = re.findall(r"^(\w+):\s*(\d+) kB$", status.read_text(), re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in sizes}


def runtime_bytes() -> dict[str, int | None]:
    """What this process has in memory before there is a model, as a rank's answer has it."""
    now = read_host_memory()
    return {
        "host_runtime_bytes": now.anonymous + now.files if now else None,
        "host_runtime_anonymous_bytes": now.anonymous if now else None,
    }


def anonymous_peak(before: HostMemory | None, after: HostMemory) -> int:
    """The peak of anonymous memory in a phase, in bytes: of all memory, less the pages of files.

    These are known at both ends, and the larger number is taken off: exact where both are equal, else too low
    by at most their difference, and never less than the memory in use at either end.
    """
    before = before or after
    return max(after.peak - max(before.files, after.files), before.anonymous, after.anonymous)
