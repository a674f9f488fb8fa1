"""The errors that the harness raises on purpose."""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable
from typing import NoReturn

PASSED = ("ok", "untimed")
"""Statuses that are no failure. `untimed`: parity passed, and no timed launch was asked for."""

STATUSES = (
    *PASSED,
    *("oom", "timeout", "crashed", "unsupported", "fallback", "diverged", "invalid", "skipped"),
)
"""Every status a launch can end in; anything but `ok` replaces the number in a table."""

LONGEST_MESSAGE = 300  # characters of a launch's message; what is longer lies in its details


def did_you_mean(word: str, names: Iterable[str], *, otherwise: str, prefix: str = "") -> str:
    """Return `did you mean NAME?` of the name nearest by `difflib`'s ratio, or else the other remedy."""
    close = difflib.get_close_matches(word, list(names), n=1)
    return f"did you mean {prefix}{close[0]}?" if close else otherwise


def plural(count: object, noun: str, ending: str = "s") -> str:
    """`1 launch`, `3 launches`."""
    return f"{count} {noun}{'' if str(count) == '1' else ending}"


class UserError(Exception):
    """Something that the user can put right; printed, it is one sentence.

    Without a remedy the reason is the whole sentence; a remedy has no full stop at its end.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason, remedy)
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        if not self.remedy:
            return self.reason
        return f"{self.reason}; {self.remedy}" + ("" if self.remedy.endswith("?") else ".")


class CannotWriteResults(UserError):
    """Results cannot be written: the comparison ends as after a failed launch, not as a wrong command."""


class LaunchFailed(Exception):
    """A worker group did not do what it was asked; `status` is one of `STATUSES`, but none of `PASSED`.

    The message is one readable line, the details are the traceback or whatever else helps to find the cause.
    """

    def __init__(self, status: str, message: str, details: str = "") -> None:
        if status not in STATUSES or status in PASSED:
            raise ValueError(f"{status!r} is not the status of a failed launch")
        super().__init__(message)
        self.status = status
        line = " ".join(message.split())
        self.message = line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 1]}…"
        self.details = details


class Terminated(KeyboardInterrupt):
    """Asked to end by SIGTERM or a terminal that hangs up, with time to tidy up."""

    @classmethod
    def catch(cls) -> None:
        """Turn these signals into this exception, unless this process ignores them already (nohup)."""
        caught = [
            number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN
        ]

        def raise_terminated(_: int, __: object) -> NoReturn:
            for number in caught:  # once is enough: what follows tidies up
                signal.signal(number, signal.SIG_IGN)
            raise cls

        for number in caught:
            signal.signal(number, raise_terminated)
