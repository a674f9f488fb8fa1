"""Machines of a kind, what connects them (conf/topology/*.yaml), and how long a collective takes on that."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]

from bench.errors import UserError
from bench.statistics.intervals import Floats
from bench.studies.collectives.sent import SENT
from bench.studies.scale.estimates import Dice, Estimate

FOLDER = Path(__file__).parents[3] / "conf" / "topology"


@dataclass(frozen=True, kw_only=True)
class NetworkLink:
    """What ranks send over."""

    # of a large all-reduce: what a rank sends and receives at a time (nccl-tests' busbw); between nodes that
    # of a node, all of its adapters together
    bytes_per_s: Estimate
    ring_bytes_per_s: Estimate  # of every other collective, where switches help an all-reduce alone
    latency_s: Estimate  # of a hop within a collective


@dataclass(frozen=True, kw_only=True)
class DeviceKind:
    """What computes."""

    name: str
    memory_bytes: Estimate  # that a rank may use
    memory_bytes_per_s: Estimate  # that an optimizer's update reads and writes
    peak_flops_per_s: dict[str, float]  # by precision, of the data sheet
    reached_share: Estimate  # of it, by forward and backward pass of a transformer


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Equal nodes, as many as are needed."""

    name: str
    title: str
    ranks_per_node: int
    device: DeviceKind
    inside_node: NetworkLink
    between_nodes: NetworkLink


def names() -> list[str]:
    """The names of all topologies."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Topology:
    """Read a topology; UserError if there is none of this name."""
    if name not in names():
        raise UserError(f"topology {name} is not known", f"choose one of: {', '.join(names())}")
    cells = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    device = cells["device"]
    return Topology(
        name=name,
        title=cells["title"],
        ranks_per_node=int(cells["ranks_per_node"]),
        device=DeviceKind(
            name=device["name"],
            memory_bytes=Estimate.of(device["memory_gib"], 2**30),
            memory_bytes_per_s=Estimate.of(device["memory_gb_per_s"], 1e9),
            peak_flops_per_s={
                precision: float(peak) * 1e12
                for precision, peak in device["peak_tflops"].items()
                if precision != "source"
            },
            reached_share=Estimate.of(device["reached_share"]),
        ),
        inside_node=_link(cells["inside_node"]),
        between_nodes=_link(cells["between_nodes"]),
    )


def _link(cells: dict[str, Any]) -> NetworkLink:
    return NetworkLink(
        bytes_per_s=Estimate.of(cells["gb_per_s"], 1e9),
        ring_bytes_per_s=Estimate.of(cells.get("ring_gb_per_s", cells["gb_per_s"]), 1e9),
        latency_s=Estimate.of(cells["latency_us"], 1e-6),
    )


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
