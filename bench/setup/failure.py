"""The error that ends a set-up."""

from __future__ import annotations


class SetupFailed(Exception):
    """The set-up cannot go on; printed, it ends in one sentence.

    Args:
        reason: what is wrong, after the end of a log if there is one; the whole text if `remedy` is left out.
        remedy: what to do about it, without the full stop at its end.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason, remedy)
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.reason}: {self.remedy}." if self.remedy else self.reason
