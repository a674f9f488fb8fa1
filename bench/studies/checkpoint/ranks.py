"""What a rank does for a checkpoint: it writes down its state, and goes on from one."""

from pathlib import Path

from bench.studies.checkpoint import files
from bench.studies.checkpoint.messages import CheckpointLoaded, CheckpointSaved
from bench.worker.rank.rank import Rank


def save_checkpoint(rank: Rank, folder: str, steps: int) -> CheckpointSaved:
    """Write down all that is needed to go on after so many steps; every rank its part."""
    training, checkpoints = rank.training, Path(folder)
    training.synchronize()
    training.barrier()
    start = rank.clock()
    if rank.rank == 0:
        files.begin(checkpoints)
    training.barrier()
    with files.naming_a_full_disk(checkpoints):
        training.save_state(checkpoints / files.UNFINISHED)
        training.barrier()
        written = files.finish(checkpoints, steps).bytes if rank.rank == 0 else 0
    training.barrier()
    return CheckpointSaved(seconds=rank.clock() - start, bytes=written)


def load_checkpoint(rank: Rank, folder: str) -> CheckpointLoaded:
    """Go on from the newest checkpoint, with the micro-batch that would have been the next."""
    training = rank.training
    training.barrier()
    start = rank.clock()
    path = files.find_newest(Path(folder))
    steps = files.read_list(path).steps
    if rank.rank == 0:  # for all: it reads every file
        files.check(path)
    training.barrier()
    training.load_state(path)
    training.synchronize()
    training.barrier()
    seconds = rank.clock() - start
    for _ in training.steps(steps):
        pass
    return CheckpointLoaded(seconds=seconds, steps=steps)
