"""One rank of a worker group: forked by `bench.worker.agent`, or `python -m bench.worker SPEC.json`."""

import os
import resource
import sys
from pathlib import Path
from typing import NoReturn

from bench.launch.channel import connect
from bench.launch.lifeline import AGENT_VARIABLE, die_with
from bench.launch.messages import Greeting
from bench.launch.spec import WorkerSpec
from bench.worker.rank.rank import Rank, serve


def run(spec: WorkerSpec, *, imported: float = 0.0) -> NoReturn:
    """Pin this process to its cores before anything makes threads, then serve until the process ends."""
    local_rank = int(os.environ["LOCAL_RANK"])
    os.sched_setaffinity(0, spec.cores[local_rank])
    if spec.memory_limit_bytes is not None:
        # Private writable memory, unlike RLIMIT_AS, which counts mappings that are never touched.
        resource.setrlimit(resource.RLIMIT_DATA, (spec.memory_limit_bytes, spec.memory_limit_bytes))
    rank = int(os.environ["RANK"])
    channel = connect(Greeting(rank=rank, pid=os.getpid()))
    made = Rank(spec, rank=rank, local_rank=local_rank)
    made.imported = imported
    made.takes_what_is_left = spec.memory_limit_bytes is None and spec.device == "cpu"
    status = serve(channel, made)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: tearing down process groups and sessions of several frameworks at interpreter exit can
    # hang or crash, and everything worth keeping has been sent.
    os._exit(status)


if __name__ == "__main__":
    die_with(int(os.environ[AGENT_VARIABLE]), "bench-rank")
    run(WorkerSpec.load(Path(sys.argv[1])))
