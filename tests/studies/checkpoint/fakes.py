"""How fake groups save and load checkpoints."""

from bench.studies.checkpoint.messages import (
    CheckpointLoaded,
    CheckpointSaved,
    LoadCheckpoint,
    SaveCheckpoint,
)
from tests.support.fakes import OF_STUDIES, FakeGroup


def _save(group: FakeGroup, request: SaveCheckpoint, rank: int) -> CheckpointSaved:
    assert request.steps == group.batches, "what is loaded would go on with another batch"
    return CheckpointSaved(seconds=0.5 + rank, bytes=0 if rank else 3 << 20)


OF_STUDIES[SaveCheckpoint] = _save
OF_STUDIES[LoadCheckpoint] = lambda group, request, rank: CheckpointLoaded(seconds=0.25 + rank, steps=1)
