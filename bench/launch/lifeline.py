"""Makes processes end with their parent, however it ends."""

import ctypes
import os
import signal
import sys

AGENT_VARIABLE = "BENCH_AGENT_PID"
"""Environment variable with the process id that must be the workers' parent."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with(parent: int) -> None:
    """Ask the kernel for SIGKILL when `parent` ends; end now if it has ended already.

    Torch elastic starts every worker in a new session, so that killing the agent's process group does not
    reach the workers; this signal does.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit("the parent process has ended")
