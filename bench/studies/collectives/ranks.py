"""What a rank does: it counts the collectives of a step, and times some alone."""

from bench.results.collectives import Collective
from bench.studies.collectives import observing
from bench.studies.collectives.messages import CollectivesCounted, CollectivesTimed
from bench.worker.rank.rank import Rank


def count_collectives(rank: Rank) -> CollectivesCounted:
    """Take a step, and note what it asks the communication library for."""
    training = rank.training
    (batch,) = training.steps(1)
    return CollectivesCounted(counted=observing.count(lambda: training.step(batch)))


def time_collectives(rank: Rank, collectives: list[Collective]) -> CollectivesTimed:
    """Do these some times, while all ranks do nothing else."""
    return CollectivesTimed(timed=observing.time_alone(collectives, rank.training))
