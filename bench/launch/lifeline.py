"""A process that ends with its parent, whatever kills the parent."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with(parent: int) -> None:
    """Ask the kernel for SIGKILL when `parent` ends; end now if it has ended already.

    Torch elastic gives every worker a session of its own, so that killing the agent's process group does
    not reach the workers; this does.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit("the parent process has ended")
