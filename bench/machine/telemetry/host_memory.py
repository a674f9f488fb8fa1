"""Measures the host memory of this process by phase, exactly and without sampling (Linux).

psutil knows neither the peak (VmHWM) nor how to reset it.
"""

import re
from contextlib import suppress
from pathlib import Path

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


def _read_status(key: str) -> int | None:
    """Bytes of an entry of /proc/self/status; None if it cannot be read."""
    with suppress(OSError):
        if size := re.search(rf"^{key}:\s*(\d+) kB$", _STATUS.read_text(), re.MULTILINE):
            return int(size[1]) * 1024
    return None
