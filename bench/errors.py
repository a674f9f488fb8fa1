"""The errors that the harness raises on purpose."""

STATUSES = (
    "ok",
    "oom",
    "timeout",
    "crashed",
    "unsupported",
    "fallback",
    "diverged",
    "invalid",
    "skipped",
)
"""Every status a launch can end in; anything but `ok` replaces the number in a table."""


class UserError(Exception):
    """Something the user can mend: its message is one sentence that holds the remedy."""


class LaunchFailed(Exception):
    """A worker group did not do what it was asked; `status` is one of `STATUSES`.

    Args:
        status: how the launch ends, never `ok`.
        message: one readable line.
        details: the traceback or whatever else helps to find the cause.
    """

    def __init__(self, status: str, message: str, details: str = "") -> None:
        if status not in STATUSES or status == "ok":
            raise ValueError(f"{status!r} is not the status of a failed launch")
        super().__init__(message)
        self.status = status
        self.message = " ".join(message.split())
        self.details = details
