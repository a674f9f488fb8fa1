"""Measures the host memory of this process by phase, exactly and without sampling (Linux).

psutil knows neither the peak (VmHWM) nor how to reset it.
"""

import re
import resource
from contextlib import suppress
from pathlib import Path

from bench.machine.hardware import available_bytes, memory_bytes

RESERVED_SHARE, MOST_RESERVED = 0.1, 4 << 30
"""Of this machine's memory, what is left to all else: this share, but at most so many bytes."""

_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


def reset_host_peak() -> bool:
    """Start a phase: the peak becomes the present use. False where the kernel does not allow it.

    Source: Linux's Documentation/filesystems/proc.rst, "5 resets the peak resident set size".
    """
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def host_peak_bytes() -> int | None:
    """Largest resident set since the last reset (VmHWM), None where /proc has none."""
    return _read_status("VmHWM")


def host_bytes() -> int | None:
    """The present resident set (VmRSS), None where /proc has none."""
    return _read_status("VmRSS")


def limit_to_available(sharers: int) -> float:
    """Let this process take its share of what is left of the machine's memory now; the GiB of that share.

    The kernel refuses what is beyond it (RLIMIT_DATA: private writable memory, touched or not). Without a
    limit a machine stalls before its memory ends. `sharers` processes ask for memory at this time.
    """
    used, reserve = _read_status("VmData"), min(memory_bytes() * RESERVED_SHARE, MOST_RESERVED)
    share = max(0, int((available_bytes() - reserve) / sharers))
    if used is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (used + share, hard))
    return share / 2**30


def _read_status(key: str) -> int | None:
    """Bytes of an entry of /proc/self/status; None if it cannot be read."""
    with suppress(OSError):
        if size := re.search(rf"^{key}:\s*(\d+) kB$", _STATUS.read_text(), re.MULTILINE):
            return int(size[1]) * 1024
    return None
