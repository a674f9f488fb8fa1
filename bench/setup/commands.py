"""Start a command of a set-up, and end it with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

SECONDS_TO_STOP = 10
"""How long an interrupted command may clean up before it is killed."""

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start(
    command: tuple[str, ...], cwd: Path, variables: dict[str, str], output: int, lock: int
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, which `end` ends with all that it has started.

    It inherits the lock: if this process is killed, the next set-up waits until it has ended too.
    """
    process = None
    try:
        with interrupts_held_back():  # otherwise one during the start would leave a process without an owner
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
            )
    except KeyboardInterrupt:
        if process:
            end(process)
        raise
    return process


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Delay a KeyboardInterrupt until the block has ended.

    By a handler, not by the signals' mask, which the started process would inherit.
    """
    received: list[int] = []
    numbers = [number for number in INTERRUPTS if signal.getsignal(number) == signal.default_int_handler]
    for number in numbers:
        signal.signal(number, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.default_int_handler)
    if received:
        raise KeyboardInterrupt


def end(process: subprocess.Popen[bytes]) -> None:
    """End a session's leader and all that it started, after some seconds to clean up."""
    ended = contextlib.suppress(ProcessLookupError)
    try:
        with ended, contextlib.suppress(subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGINT)
            process.wait(SECONDS_TO_STOP)
    finally:
        with ended:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
