"""What the collectives of fake groups are."""

from bench.studies.collectives.messages import CollectivesCounted, CountCollectives
from bench.studies.collectives.sent import Collective
from tests.support.fakes import OF_STUDIES

SENT = [
    (Collective(kind="all_reduce", bytes=4000, element_bytes=4), 2),
    (Collective(kind="all_reduce", bytes=4, element_bytes=4), 1),
    (Collective(kind="gather", bytes=8, element_bytes=8), 1),
]
"""In a step: gradients, a flag, and something that nobody can time alone."""

OF_STUDIES[CountCollectives] = lambda group, request, rank: CollectivesCounted(counted=SENT)
