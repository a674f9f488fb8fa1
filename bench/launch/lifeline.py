"""Makes processes end with their parent, however it ends."""

import ctypes
import os
import signal
import sys

AGENT_VARIABLE = "BENCH_AGENT_PID"
"""Environment variable with the process id that must be the workers' parent."""

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # linux/prctl.h


def die_with(parent: int, name: str) -> None:
    """Ask the kernel for SIGKILL when `parent` ends; end now if it has. `ps` and `top` show this `name`.

    Torch elastic starts every worker in a new session, so that killing the agent's process group does not
    reach the workers; this signal does.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_NAME, name.encode())
    if prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit("the parent process has ended")
