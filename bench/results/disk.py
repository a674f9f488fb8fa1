"""A disk that cannot be written to: one sentence for the user instead of a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import CannotWriteResults


@contextmanager
def reporting_write_errors(csv: Path) -> Iterator[None]:
    """Turn an OSError into a sentence that says what to do; `csv` keeps what it held before.

    Raises:
        CannotWriteResults: instead of OSError.
    """
    try:
        yield
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise CannotWriteResults(
            f"{error.filename or csv} cannot be written ({reason}); make room, and go on with the same "
            f"command and resume=true: {csv} keeps the rounds before."
        ) from error
