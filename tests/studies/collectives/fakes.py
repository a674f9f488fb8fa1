"""What the collectives of fake groups are."""

from bench.results.collectives import Collective, CountedCollective, TimedCollective
from bench.studies.collectives.messages import (
    CollectivesCounted,
    CollectivesTimed,
    CountCollectives,
    TimeCollectives,
)
from tests.support.fakes import OF_STUDIES, FakeGroup

SENT = [
    CountedCollective(collective=Collective(kind="all_reduce", bytes=4000, element_bytes=4), calls=2),
    CountedCollective(collective=Collective(kind="all_reduce", bytes=4, element_bytes=4), calls=1),
    CountedCollective(collective=Collective(kind="gather", bytes=8, element_bytes=8), calls=1),
]
"""In a step: gradients, a flag, and something that nobody can time alone."""


def _time(group: FakeGroup, request: TimeCollectives, rank: int) -> CollectivesTimed:
    seconds, cpu_seconds = (0.01 + rank, 0.02, 0.03 + rank), 0.5 + rank
    return CollectivesTimed(
        timed=[
            TimedCollective(collective=one, seconds=seconds, cpu_seconds=cpu_seconds)
            for one in request.collectives
        ]
    )


OF_STUDIES[CountCollectives] = lambda group, request, rank: CollectivesCounted(counted=SENT)
OF_STUDIES[TimeCollectives] = _time
