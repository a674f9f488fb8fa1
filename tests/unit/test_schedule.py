"""Orders, core shares and block lengths."""

from collections import Counter
from itertools import pairwise

import pytest

from bench.measure.plan import schedule
from bench.measure.plan.cores import core_shares

NAMES = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_in_n_successive_rounds_each_backend_stands_in_each_place_once(count: int) -> None:
    orders = schedule.round_orders(NAMES[:count], launch=1, rounds=4 * count)
    for start in range(0, 4 * count, count):
        for place in range(count):
            stood = [order[place] for order in orders[start : start + count]]
            assert sorted(stood) == NAMES[:count]


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_each_backend_follows_each_other_equally_often(count: int) -> None:
    orders = schedule.round_orders(NAMES[:count], launch=1, rounds=2 * count)
    follows = Counter(pair for order in orders for pair in pairwise(order))
    assert len(follows) == count * (count - 1)
    assert set(follows.values()) == {2}


def test_the_design_runs_on_from_launch_to_launch() -> None:
    launches = [schedule.round_orders(["a", "b", "c"], launch=launch, rounds=5) for launch in (1, 2, 3)]
    assert [len(launch) for launch in launches] == [5, 5, 5]
    orders = [order for launch in launches for order in launch]
    assert orders == schedule.round_orders(["a", "b", "c"], launch=1, rounds=15)
    places = Counter((place, name) for order in orders for place, name in enumerate(order))
    assert set(places.values()) == {5}


def test_with_one_resident_group_the_order_of_the_groups_alternates() -> None:
    orders = [schedule.group_order(["a", "b"], launch=launch) for launch in (1, 2, 3)]
    assert orders == [("a", "b"), ("b", "a"), ("a", "b")]


@pytest.mark.parametrize(("count", "launches"), [(2, 2), (3, 6), (4, 4), (5, 10), (6, 6)])
def test_with_one_resident_group_even_drift_cancels_and_each_follows_each_other(
    count: int, launches: int
) -> None:
    names = [f"backend {number}" for number in range(count)]
    orders = [schedule.group_order(names, launch=launch) for launch in range(1, launches + 1)]
    for there, back in zip(orders[::2], orders[1::2], strict=True):
        assert back == there[::-1]
    followed = Counter(pair for order in orders for pair in pairwise(order))
    assert set(followed.values()) == {launches // count}
    assert len(followed) == count * (count - 1)
    assert schedule.group_order(names, launch=launches + 1) == orders[0]


@pytest.mark.parametrize(("done", "missing"), [(0, 3), (8, 2), (10, 2), (23, 1), (24, 0), (30, 0)])
def test_what_is_missing_is_made_in_whole_launches(done: int, missing: int) -> None:
    assert schedule.missing_launches(launches=3, rounds=8, measured=done) == missing


def test_ranks_get_neighbouring_cores_of_their_own() -> None:
    assert core_shares([0, 2, 4, 6], world_size=2, threads=2) == [(0, 2), (4, 6)]


def test_ranks_get_the_cores_next_to_their_gpus_while_there_are_any() -> None:
    near = [(4, 5, 6, 7), (0, 1, 2, 3), (4, 5, 6, 7)]
    assert core_shares(range(8), world_size=3, threads=2, near=near) == [(4, 5), (0, 1), (6, 7)]
    crowded = [(0, 1), (0, 1), (0, 1)]
    assert core_shares(range(6), world_size=3, threads=2, near=crowded) == [(0, 1), (2, 3), (4, 5)]
    assert core_shares([1, 3, 5], world_size=3, threads=1, near=[(), (1, 5)]) == [(1,), (5,), (3,)]


def test_ranks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="2 ranks of 2 threads do not fit on 3 cores"):
        core_shares([0, 1, 2], world_size=2, threads=2)


@pytest.mark.parametrize(("seconds", "steps"), [(0.3, 6), (0.5, 4), (5.0, 1)])
def test_a_block_has_as_many_steps_as_fit_into_its_length(seconds: float, steps: int) -> None:
    assert schedule.steps_per_block(seconds, 2.0) == steps
