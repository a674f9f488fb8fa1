"""Jobs in other processes: what these processes inherit."""

import os
import signal

import pytest

from bench.launch.lifeline import Terminated
from bench.report import parallel


@pytest.mark.once
def test_the_other_processes_end_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A pool ends its processes by SIGTERM, which `make bench` catches: they printed tracebacks, or hung."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    Terminated.catch()
    try:
        runs = [parallel.run([_state_of_process] * (parallel.MOST_IN_SEQUENCE + 1)) for _ in range(20)]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    states = [state for run in runs for state in run]
    assert {handler for _, handler in states} == {signal.SIG_DFL}
    assert os.getpid() not in {process for process, _ in states}
    assert capfd.readouterr().err == ""


def _state_of_process() -> tuple[int, object]:
    handler = signal.getsignal(signal.SIGTERM)
    return os.getpid(), handler if handler == signal.SIG_DFL else "caught"
