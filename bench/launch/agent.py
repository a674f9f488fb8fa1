"""Torch elastic's agent (torchrun), bound to the life of the coordinator.

`python -m bench.launch.agent COORDINATOR_PID TORCHRUN_ARGUMENTS…`
"""

import os
import sys

from bench.launch.lifeline import die_with

AGENT_VARIABLE = "BENCH_AGENT_PID"
"""Environment variable that tells the workers which process must be their parent."""


def main() -> None:
    """Run torchrun with the remaining arguments."""
    die_with(int(sys.argv[1]))
    os.environ[AGENT_VARIABLE] = str(os.getpid())
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.run import main as torchrun

    try:
        torchrun(sys.argv[2:])
    except SignalException:  # the coordinator's way to end a group: no cause for a traceback in the log
        sys.exit(1)


if __name__ == "__main__":
    main()
