"""Temporary folders: the owner removes its own, and those of owners that were killed."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "bench-"
LOCK = "owner.lock"


class Scratch:
    """A temporary folder that its owner removes; if the owner is killed, the next `Scratch` removes it.

    The owner holds a file lock in it. The kernel releases it when the process ends, also across containers.
    """

    def __init__(self) -> None:
        for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
            _remove_if_stale(lock)
        self._lock = -1
        while self._lock < 0:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            self._lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.fstat(self._lock).st_nlink == 0:  # another process tidied up before we had the lock
                os.close(self._lock)
                self._lock = -1

    def remove(self) -> None:
        """Remove the folder and all that is in it. May be called twice."""
        if self._lock < 0:
            return
        _remove(self.path)
        os.close(self._lock)
        self._lock = -1


def _remove(folder: Path) -> None:
    """Remove the lock last: without it, what is left would not be recognised as a stale folder."""
    for path in folder.iterdir():
        if path.name == LOCK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_if_stale(lock: Path) -> None:
    with suppress(OSError), lock.open("r+b") as held:  # another user's, or gone by now
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(lock.parent)
