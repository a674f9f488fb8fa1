"""What ranks are asked for: which collectives a step has."""

from typing import ClassVar

from bench.launch.messages import Answer, Request
from bench.studies.collectives.sent import Collective


class CollectivesCounted(Answer, frozen=True, kw_only=True):
    """What this rank asked the communication library for in one step."""

    counted: list[tuple[Collective, int]]  # each, and how often


class CountCollectives(Request[CollectivesCounted], frozen=True, tag="count_collectives"):
    """Take a step and count what it asks the communication library for."""

    answered_by: ClassVar[str] = "bench.studies.collectives.ranks"
