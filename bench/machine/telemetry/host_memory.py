"""Host memory of this process by phase, exact and without sampling (Linux)."""

from pathlib import Path

_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


def reset_host_peak() -> bool:
    """Start a phase: the peak becomes the present use. False where the kernel does not let us.

    Source: Linux's Documentation/filesystems/proc.rst, "5 resets the peak resident set size".
    """
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def host_peak_bytes() -> int | None:
    """Largest resident set since the last reset (VmHWM), None where /proc does not tell."""
    return _status("VmHWM")


def host_bytes() -> int | None:
    """The present resident set (VmRSS), None where /proc does not tell."""
    return _status("VmRSS")


def _status(key: str) -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return None
