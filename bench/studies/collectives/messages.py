"""What ranks are asked for: which collectives a step has, and how long they take alone."""

from typing import ClassVar

from bench.launch.messages import Answer, Request
from bench.results.collectives import Collective, CountedCollective, TimedCollective


class CollectivesCounted(Answer, frozen=True, kw_only=True):
    """What this rank asked the communication library for in one step."""

    counted: list[CountedCollective]


class CollectivesTimed(Answer, frozen=True, kw_only=True):
    """How long collectives took on this rank while the ranks did nothing else."""

    timed: list[TimedCollective]


class CountCollectives(Request[CollectivesCounted], frozen=True, tag="count_collectives"):
    """Take a step and count what it asks the communication library for."""

    answered_by: ClassVar[str] = "bench.studies.collectives.ranks"


class TimeCollectives(Request[CollectivesTimed], frozen=True, tag="time_collectives"):
    """Do these collectives some times, without training."""

    collectives: list[Collective]
    answered_by: ClassVar[str] = "bench.studies.collectives.ranks"
