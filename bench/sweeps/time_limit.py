"""An end in time: what runs is interrupted, as Ctrl-C would."""

import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from bench.errors import UserError

SECONDS_TO_END = 20
"""Seconds of a limited call that are kept for ending what runs and for the summary."""


class OutOfTime(KeyboardInterrupt):
    """The time of the call is over, but for what it takes to tidy up."""


def parse_minutes(text: str | None) -> float:
    """The seconds that a call may take; infinite if nothing is said.

    Raises:
        UserError: it is no number, or too little for anything.
    """
    if text is None:
        return math.inf
    try:
        seconds = 60 * float(text)
    except ValueError:
        seconds = 0.0
    if not SECONDS_TO_END < seconds < math.inf:
        raise UserError(f"minutes={text} must be a number above {SECONDS_TO_END / 60:.2f}.")
    return seconds


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise OutOfTime within, when so many seconds have passed."""
    if math.isinf(seconds):
        yield
        return

    def interrupt(_: int, __: object) -> NoReturn:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
