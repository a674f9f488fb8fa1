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
            with suppress(OSError), lock.open("r+b") as held:  # another user's, or gone by now
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
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
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1
