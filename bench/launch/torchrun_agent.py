"""Torch elastic's agent (torchrun), bound to the life of the coordinator.

`python -m bench.launch.torchrun_agent COORDINATOR_PID TORCHRUN_ARGUMENTS…`
"""

import json
import os
import signal
import sys

from bench.launch.importing import garbage_collector_off
from bench.launch.lifeline import AGENT_VARIABLE, EXITS_VARIABLE, die_with


def main() -> None:
    """Run torchrun with the remaining arguments; ranks that failed by themselves go down the pipe."""
    die_with(int(sys.argv[1]))
    os.environ[AGENT_VARIABLE] = str(os.getpid())
    exits = int(os.environ.pop(EXITS_VARIABLE, -1))
    if exits >= 0:
        os.set_inheritable(exits, False)
    with garbage_collector_off():
        from torch.distributed.elastic.multiprocessing.api import SignalException
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.run import main as torchrun

    try:
        torchrun(sys.argv[2:])
    except SignalException as caught:  # the coordinator's way to end a group: no cause for a traceback
        signal.signal(caught.sigval, signal.SIG_DFL)
        os.kill(os.getpid(), caught.sigval)
    except ChildFailedError as error:
        statuses = {rank: failure.exitcode for rank, failure in error.failures.items()}
        if exits >= 0:
            os.write(exits, json.dumps(statuses).encode())
        sys.exit(1)


if __name__ == "__main__":
    main()
