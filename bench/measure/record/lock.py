"""A lock per comparison: two processes never write the same results file."""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.errors import UserError
from bench.results.atomic import reporting_write_errors


@contextmanager
def locked(folder: Path, stem: str) -> Iterator[None]:
    """Hold the lock of a comparison; the kernel releases it if this process is killed.

    Args:
        folder: of the comparison's raw runs; the lock lies there.
        stem: the comparison's name, for the message.

    Raises:
        UserError: another process holds it.
    """
    with ExitStack() as stack:
        with reporting_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((folder / "lock").open("a"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{stem} is being measured by another process (it holds {lock.name}); "
                "wait for it, or choose another results_dir."
            ) from None
        yield
