"""What a rank does: it counts the collectives of a step."""

from bench.studies.collectives import observing
from bench.studies.collectives.messages import CollectivesCounted
from bench.worker.rank.rank import Rank


def count_collectives(rank: Rank) -> CollectivesCounted:
    """Take a step, and note what it asks the communication library for."""
    training = rank.training
    (batch,) = training.steps(1)
    return CollectivesCounted(counted=observing.count(lambda: training.step(batch)))
