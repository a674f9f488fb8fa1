"""Which processes there are below another one, and whether they have ended."""

import time
from pathlib import Path


def children(pid: int) -> list[int]:
    """The processes that a process has started or forked, and that it has not reaped."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, and itself."""
    return [pid, *(found for child in children(pid) for found in descendants(child))]


def parent_of(pid: int) -> int:
    """The process that has started or forked it."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def name_of(pid: int) -> str:
    """What `ps` calls it; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pids: list[int], seconds: float = 120) -> bool:
    """Whether all of them have ended within that time."""
    deadline = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
