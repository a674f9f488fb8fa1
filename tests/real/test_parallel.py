"""Jobs in other processes: what these processes inherit."""

import subprocess
import sys

import pytest

from bench.setup.checkout import ROOT

SCRIPT = """
import os, signal
from bench.launch.lifeline import Terminated
from bench.report import parallel

def state_of_process():
    return os.getpid(), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

os.sched_getaffinity = lambda _: {0, 1}
Terminated.catch()
jobs = [state_of_process] * (parallel.MOST_IN_SEQUENCE + 1)
states = [state for _ in range(20) for state in parallel.run(jobs)]
assert os.getpid() not in {process for process, _ in states}
assert all(default for _, default in states)
print(len(states))
"""


@pytest.mark.once
def test_the_other_processes_end_without_a_word() -> None:
    """A pool ends its processes by SIGTERM, which `make bench` catches: they printed tracebacks, or hung.

    In an interpreter of its own: what other tests import, such as tokenizers, has its own words about a fork.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "660\n", "")
