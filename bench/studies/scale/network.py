"""How long a collective takes on a topology: by the bandwidth of its links, and by hops."""

import numpy as np

from bench.statistics.intervals import Floats
from bench.studies.collectives.sent import SENT
from bench.studies.scale.estimates import Dice
from bench.studies.scale.topology import Topology


class LinkedNodes:
    """A topology: rings over all ranks inside nodes and between them.

    A large collective moves at the speed of the slower link, since all adapters of a node work at a time
    and what moves inside nodes overlaps with what moves between them. A small all-reduce takes trees
    between nodes, whose depth is a logarithm (NCCL 2.4, "Massively scale your deep learning training",
    developer.nvidia.com/blog). GPUs compute meanwhile. Figures are drawn once, for all calls.
    """

    def __init__(self, topology: Topology, dice: Dice) -> None:
        self._per_node = topology.ranks_per_node
        inside, between = topology.inside_node, topology.between_nodes
        self._all_reduce = [dice.draw(link.bytes_per_s) for link in (inside, between)]
        self._ring = [
            drawn if link.ring_bytes_per_s == link.bytes_per_s else dice.draw(link.ring_bytes_per_s)
            for drawn, link in zip(self._all_reduce, (inside, between), strict=True)
        ]
        self._hop_inside, self._hop_between = dice.draw(inside.latency_s), dice.draw(between.latency_s)

    def seconds(self, kind: str, size: float, ranks: Floats) -> Floats:
        """Seconds of one call, shape (draws, world sizes); `size` is in bytes of the whole tensor."""
        nodes = np.ceil(ranks / self._per_node)
        inside, between = self._all_reduce if kind == "all_reduce" else self._ring
        speed = np.where(nodes > 1, np.minimum(inside, between), inside)
        moved = SENT[kind] * size * (ranks - 1) / ranks / speed
        ring = SENT[kind] * ((ranks - nodes) * self._hop_inside + (nodes - 1) * self._hop_between)
        if kind == "all_reduce":
            inside = 2 * (np.minimum(ranks, self._per_node) - 1) * self._hop_inside
            tree = inside + 2 * np.ceil(np.log2(nodes)) * self._hop_between
            ring = np.minimum(ring, tree)
        return np.where(ranks > 1, moved + ring, 0.0)
