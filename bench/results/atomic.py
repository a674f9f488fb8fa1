"""Writes a file whole or not at all; a disk that refuses becomes one sentence instead of a traceback."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import CannotWriteResults


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content` (text as UTF-8) so that an interruption leaves the old content whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def reporting_write_errors(csv: Path) -> Iterator[None]:
    """Turn an OSError into CannotWriteResults, which says what to do; `csv` keeps what it held before."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise CannotWriteResults(
            f"{error.filename or csv} cannot be written ({reason}); make room, and go on with the same "
            f"command and resume=true: {csv} keeps the rounds before."
        ) from error
