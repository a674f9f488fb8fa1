"""How long a collective takes: on a topology by its links, on this machine as it was measured.

A collective's seconds have two parts: those in which it keeps the processor busy that computes (`busy`),
and those in which the ranks only wait for what is on its way (`on_the_way`). Only the second can hide
behind computation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from bench.analysis.scale.estimates import Dice, Estimate
from bench.analysis.scale.topology import Topology
from bench.results.collectives import SENT
from bench.statistics.intervals import Floats


@dataclass(frozen=True, kw_only=True)
class Duration:
    """Seconds of one call, of shape (draws, world sizes)."""

    busy: Floats
    on_the_way: Floats

    @property
    def total(self) -> Floats:
        """Both parts."""
        return self.busy + self.on_the_way


class LinkedNodes:
    """A topology: rings over all ranks inside nodes and between them.

    A large collective moves at the speed of the slower link, since all adapters of a node work at a time
    and what moves inside nodes overlaps with what moves between them. A small all-reduce takes trees
    between nodes, whose depth is a logarithm (NCCL 2.4, "Massively scale your deep learning training",
    developer.nvidia.com/blog). GPUs send by themselves: nothing is busy.

    Args:
        topology: whose links they are.
        dice: draws their figures, once for all calls.
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

    def seconds(self, kind: str, size: float, ranks: Floats) -> Duration:
        """How long one call takes.

        Args:
            kind: of `bench.results.collectives.SENT`.
            size: bytes of the whole tensor.
            ranks: how many take part, shape (world sizes,).
        """
        nodes = np.ceil(ranks / self._per_node)
        inside, between = self._all_reduce if kind == "all_reduce" else self._ring
        speed = np.where(nodes > 1, np.minimum(inside, between), inside)
        moved = SENT[kind] * size * (ranks - 1) / ranks / speed
        ring = SENT[kind] * ((ranks - nodes) * self._hop_inside + (nodes - 1) * self._hop_between)
        if kind == "all_reduce":
            inside = 2 * (np.minimum(ranks, self._per_node) - 1) * self._hop_inside
            tree = inside + 2 * np.ceil(np.log2(nodes)) * self._hop_between
            ring = np.minimum(ring, tree)
        on_the_way = np.where(ranks > 1, moved + ring, 0.0)
        return Duration(busy=np.zeros_like(on_the_way), on_the_way=on_the_way)


PIPELINED = ("all_reduce",)
"""Collectives in which gloo works on one piece while a slow link carries another: they take as long as the
longer of the two. The others copy all of a tensor before or after (`seconds of one …` in
results/predicted/checks.csv)."""


@dataclass(frozen=True, kw_only=True)
class TimedSize:
    """A collective of this size as it was timed alone."""

    size: float  # bytes of the whole tensor
    seconds: Estimate  # of a call
    busy_share: float  # of them, in which a rank's core worked on it


@dataclass
class MeasuredRanks:
    """Ranks of one machine, on which collectives of many sizes were timed.

    Between two sizes, seconds follow a line between logarithms. Below the smallest a call takes what that
    takes, above the largest it takes in proportion.
    """

    ranks: int  # that were timed; of other world sizes nothing is known, but that one rank sends nothing
    timed: Mapping[str, Sequence[TimedSize]]  # by kind, in order of size
    dice: Dice  # draws a factor for each kind, since what makes one call slow makes others slow, too
    _: KW_ONLY
    bytes_per_s: float | None = None  # of a link that all of it has to pass besides; None if there is none

    def __post_init__(self) -> None:
        self._factors = {}  # around 1: how far the largest size's seconds may be off, which matters most
        for kind, sizes in self.timed.items():
            largest = sizes[-1].seconds
            low, high = largest.low / largest.value, largest.high / largest.value
            self._factors[kind] = self.dice.draw(Estimate(value=1.0, low=low, high=high))

    def seconds(self, kind: str, size: float, ranks: Floats) -> Duration:
        """How long one call takes; arguments as of `LinkedNodes.seconds`.

        Raises:
            ValueError: a kind or a world size was not timed.
        """
        if set(np.unique(ranks)) - {1.0, float(self.ranks)}:
            raise ValueError(f"collectives were timed with {self.ranks} ranks")
        if kind not in self.timed:
            raise ValueError(f"no {kind} was timed")
        sizes = self.timed[kind]
        places = np.log([timed.size for timed in sizes])
        logarithm = np.interp(np.log(size), places, np.log([timed.seconds.value for timed in sizes]))
        beyond = max(1.0, size / sizes[-1].size)
        alone = np.exp(logarithm) * beyond * self._factors[kind]
        busy_share = float(np.interp(np.log(size), places, [timed.busy_share for timed in sizes]))
        whole, busy = alone, alone * busy_share
        if self.bytes_per_s is not None:
            link = SENT[kind] * size * (self.ranks - 1) / self.ranks / self.bytes_per_s
            whole = np.maximum(alone, link) if kind in PIPELINED else alone + link
        several = ranks > 1
        return Duration(busy=np.where(several, busy, 0.0), on_the_way=np.where(several, whole - busy, 0.0))


Network = LinkedNodes | MeasuredRanks
