"""A program in a session of its own, of which nothing is left once whoever started it goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a command to end."""


@contextlib.contextmanager
def session_of(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, and kill its session at the end of the `with` block.

    After an exception it gets Ctrl-C first, and 10 s. The options are those of `subprocess.Popen`.
    """
    process = None
    came: list[int] = []  # in the middle of `Popen`, where they would leave a program that nobody knows
    in_main = threading.current_thread() is threading.main_thread()  # no other is interrupted
    caught = [number for number in INTERRUPTS if in_main and callable(signal.getsignal(number))]
    try:
        with contextlib.ExitStack() as undo:
            for number in caught:
                undo.callback(signal.signal, number, signal.getsignal(number))
                signal.signal(number, lambda number, _: came.append(number))
            process = subprocess.Popen(command, start_new_session=True, **options)
        for each in came:
            os.kill(os.getpid(), each)
        yield process
    except BaseException:
        if process is not None:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGINT)
                process.wait(10)
        raise
    finally:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
