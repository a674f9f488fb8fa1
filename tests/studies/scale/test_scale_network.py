"""Figures with what they may be, topologies, and how long a collective takes on them."""

from dataclasses import replace

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]

from bench.errors import UserError
from bench.studies.collectives.sent import SENT
from bench.studies.scale import topology
from bench.studies.scale.estimates import Dice, Estimate, estimates_of
from bench.studies.scale.topology import LinkedNodes, NetworkLink

GB = 1e9

# --- figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "value", "high"),
    [(0, 1, 2), (-1, 1, 2), (2, 1, 3), (1, 3, 2), (float("nan"), 1, 2), (1, float("nan"), 2), (0, 0, 0)],
)
def test_a_figure_lies_within_its_bounds_and_above_zero(low: float, value: float, high: float) -> None:
    with pytest.raises(ValueError, match="does not lie in"):
        Estimate(value=value, low=low, high=high)


def test_a_figure_of_a_file_may_be_in_other_units() -> None:
    one = Estimate.of({"value": "2", "low": 1, "high": 4.0, "source": "a page"}, 1000)
    assert (one.value, one.low, one.high) == (2000, 1000, 4000)
    known = Estimate.exactly(3.0)
    assert (known.value, known.low, known.high) == (3.0, 3.0, 3.0)


def test_the_first_draw_is_the_value_and_the_others_lie_around_it() -> None:
    figure = Estimate(value=10, low=9, high=20)
    draws = Dice(20_000, seed=3).draw(figure)
    assert draws.shape == (20_000, 1)
    assert draws[0, 0] == 10
    assert Dice().draw(figure).tolist() == [[10]]
    assert np.median(draws) == pytest.approx(10, rel=0.01), "as many above as below"
    assert np.mean(draws < 9) == pytest.approx(0.025, abs=0.005)
    assert np.mean(draws > 20) == pytest.approx(0.025, abs=0.005)
    assert (draws > 0).all()


def test_the_same_seed_gives_the_same_draws_and_a_figure_drawn_twice_is_drawn_anew() -> None:
    figure = Estimate(value=1, low=0.5, high=2)
    first, again, other = Dice(50, seed=1), Dice(50, seed=1), Dice(50, seed=2)
    one = first.draw(figure)
    assert one.tolist() == again.draw(figure).tolist()
    assert one.tolist() != other.draw(figure).tolist()
    assert one.tolist() != first.draw(figure).tolist()


def test_a_band_holds_95_percent_of_the_draws_and_the_best_guess() -> None:
    draws = np.column_stack([np.arange(1001.0), np.full(1001, 5.0), np.arange(1001.0) + 1])
    draws[0] = [500, 5, 0.5]
    wide, exact, lowest = estimates_of(draws)
    assert [one.value for one in (wide, exact, lowest)] == [500, 5, 0.5]
    assert wide.low == pytest.approx(25, abs=1)
    assert wide.high == pytest.approx(975, abs=1)
    assert (exact.low, exact.high) == (5, 5)
    assert lowest.low == 0.5, "the best guess itself is never outside"


# --- topologies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", topology.names())
def test_every_topology_is_sane(name: str) -> None:
    one = topology.load(name)
    assert one.name == name
    assert one.title
    assert 0 < one.device.reached_share.low < one.device.reached_share.high < 1
    assert one.inside_node.bytes_per_s.value >= one.between_nodes.bytes_per_s.value
    assert one.inside_node.latency_s.value < one.between_nodes.latency_s.value
    cells = yaml.safe_load((topology.FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    parts = [cells[part] for part in ("device", "inside_node", "between_nodes")]
    figures = [figure for part in parts for figure in part.values() if isinstance(figure, dict)]
    assert len(figures) >= 8
    assert all(len(figure["source"]) > 20 for figure in figures), "every figure says where it is from"


def test_there_are_topologies_with_fast_and_with_slow_links_and_no_others_are_known() -> None:
    assert topology.names() == ["dgx-a100", "dgx-h100", "v100x8"]
    with pytest.raises(UserError, match="topology dgx-b9 is not known"):
        topology.load("dgx-b9")


# --- linked nodes ---------------------------------------------------------------------------------


def linked(
    *,
    inside: float = 100 * GB,
    ring: float | None = None,
    between: float = 10 * GB,
    hop: float = 2e-6,
    far_hop: float = 5e-6,
) -> LinkedNodes:
    """Nodes of eight."""

    def link(**figures: float) -> NetworkLink:
        return NetworkLink(**{name: Estimate.exactly(value) for name, value in figures.items()})

    inner = link(bytes_per_s=inside, ring_bytes_per_s=ring or inside, latency_s=hop)
    outer = link(bytes_per_s=between, ring_bytes_per_s=between, latency_s=far_hop)
    return LinkedNodes(replace(topology.load("dgx-a100"), inside_node=inner, between_nodes=outer), Dice())


def took(network: LinkedNodes, kind: str, size: float, *ranks: float) -> list[float]:
    seconds: list[float] = network.seconds(kind, size, np.array(ranks))[0].tolist()
    return seconds


@pytest.mark.parametrize("kind", SENT)
def test_a_large_collective_takes_what_a_ring_takes(kind: str) -> None:
    size, ranks = 100 * GB, [2, 8, 16, 1024]
    for number, seconds in zip(ranks, took(linked(), kind, size, *ranks), strict=True):
        speed = 100 * GB if number <= 8 else 10 * GB
        assert seconds == pytest.approx(SENT[kind] * size * (number - 1) / number / speed, rel=1e-3)


def test_the_slower_link_counts_between_nodes_and_the_inside_one_within_a_node() -> None:
    slow_inside = linked(inside=5 * GB, between=50 * GB)
    inside, across = took(slow_inside, "all_gather", 8 * GB, 8, 16)
    assert inside == pytest.approx(7 / 5, rel=1e-3)
    assert across == pytest.approx(8 * 15 / 16 / 5, rel=1e-3), "a node's own link is in the way of it"
    fast_inside = linked(inside=50 * GB, between=5 * GB)
    assert took(fast_inside, "all_gather", 8 * GB, 8) == pytest.approx([7 / 50], rel=1e-3)
    assert took(fast_inside, "all_gather", 8 * GB, 16) == pytest.approx([8 * 15 / 16 / 5], rel=1e-3)


def test_a_small_collective_takes_a_hop_for_every_rank_but_an_all_reduce_climbs_trees() -> None:
    (ring,) = took(linked(), "all_gather", 1, 64)
    assert ring == pytest.approx((64 - 8) * 2e-6 + 7 * 5e-6, rel=1e-3)
    (tree,) = took(linked(), "all_reduce", 1, 64)
    assert tree == pytest.approx(2 * 7 * 2e-6 + 2 * 3 * 5e-6, rel=1e-3), "three levels of eight nodes"
    few, many = took(linked(), "all_reduce", 1, 8, 4096)
    assert few == pytest.approx(2 * 7 * 2e-6, rel=1e-3)
    assert many == pytest.approx(2 * 7 * 2e-6 + 2 * 9 * 5e-6, rel=1e-3)
    assert took(linked(), "all_gather", 1, 4096)[0] > 50 * many


@pytest.mark.parametrize("kind", SENT)
def test_more_ranks_and_more_bytes_never_take_less(kind: str) -> None:
    ranks = [1, 2, 4, 8, 16, 32, 512]
    each = [took(linked(), kind, size, *ranks) for size in (1, 1e3, 1e6, 1e9)]
    assert (np.diff(each, axis=0)[:, 1:] > 0).all()
    assert (np.diff(each, axis=1) > 0).all()


def test_all_calls_have_the_same_links() -> None:
    a100, ranks = topology.load("dgx-a100"), np.array([8.0, 64.0])
    network = LinkedNodes(a100, Dice(100))
    one, again = (network.seconds("all_gather", 10 * GB, ranks) for _ in range(2))
    assert one.shape == (100, 2)
    assert one.tolist() == again.tolist()
    assert len(set(one[:, 1])) > 90


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "broadcast"])
def test_switches_help_an_all_reduce_alone(kind: str) -> None:
    """Of twice the bytes it takes as long as the others in their ring, which is half as fast."""
    nodes = linked(inside=100 * GB, ring=50 * GB, hop=1e-12)
    assert took(nodes, kind, 8e9, 8) == pytest.approx([0.14], rel=1e-6)
