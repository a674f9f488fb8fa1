"""What ranks do together: collectives, and what each of them sends."""

from dataclasses import dataclass

SENT = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "broadcast": 1, "reduce": 1}
"""How often each of many ranks sends the whole tensor in a ring, which sends least; with N ranks it is
(N - 1) / N of this (Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
workstations"). A broadcast or a reduce passes along a chain, so that this is the mean over its ranks."""


@dataclass(frozen=True, kw_only=True, order=True)
class Collective:
    """One kind of call."""

    kind: str  # of `SENT`, or as torch.distributed names it
    bytes: int  # of the whole tensor: of what every rank has after an all_gather, had before a reduce_scatter
    element_bytes: int  # of one number


def sent_bytes(collective: Collective, ranks: int) -> float:
    """Bytes that one rank sends, by the algorithm that sends least; 0 for a kind that is not in `SENT`."""
    return SENT.get(collective.kind, 0) * collective.bytes * (ranks - 1) / ranks
