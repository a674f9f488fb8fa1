"""Collectives of steps: what is asked for, what is written of it, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.config.identity import config_hash
from bench.errors import UserError
from bench.measure.plan.cores import core_shares
from bench.studies.collectives.sent import Collective, sent_bytes
from bench.studies.collectives.table import TABLE as COLLECTIVES
from tests.studies.collectives import fakes  # noqa: F401 - fake groups count by it
from tests.support.comparisons import Resumable, Simulated
from tests.support.configs import BACKENDS, a_config
from tests.support.fakes import Script


def collectives_of(simulated: Simulated) -> pd.DataFrame:
    return COLLECTIVES.read(COLLECTIVES.path_of(simulated.comparison.shared.output.csv))


def test_every_collective_of_a_step_is_counted(tmp_path: Path) -> None:
    table = collectives_of(Simulated(tmp_path, collectives="count"))
    assert set(table["backend"]) == {"pytorch", "ortmodule", "ortmodule_zero1"}
    mine = table[table["backend"] == "pytorch"]
    (gradients,) = mine[mine["whole_bytes"] == 4000].itertuples()
    assert gradients.calls == 2
    (unknown,) = mine[mine["name"] == "gather"].itertuples()
    assert unknown.calls == 1


def test_what_fails_leaves_a_row_that_says_so(tmp_path: Path) -> None:
    script = {"ortmodule": {"fails": {("count_collectives", 1, 1): ("crashed", "a rank lost its way", "")}}}
    simulated = Simulated(tmp_path, script, collectives="count")
    table = collectives_of(simulated)
    assert list(table[table["backend"] == "ortmodule"]["status"]) == ["crashed"]
    assert not simulated.failures
    assert "collectives of ortmodule: a rank lost its way" in simulated.printed


def test_parity_alone_can_be_counted_and_nobody_asks_for_it_by_default(tmp_path: Path) -> None:
    counted = Simulated(tmp_path / "parity", launches=0, collectives="count")
    assert set(collectives_of(counted)["backend"]) == {"pytorch", "ortmodule", "ortmodule_zero1"}
    without = Simulated(tmp_path / "without")
    assert not COLLECTIVES.path_of(without.comparison.shared.output.csv).exists()


def test_counting_collectives_changes_nothing_that_is_measured(tmp_path: Path) -> None:
    assert config_hash(a_config(tmp_path, collectives="count")) == config_hash(a_config(tmp_path))


def test_ranks_that_share_cores_are_counted_and_never_timed(tmp_path: Path) -> None:
    assert core_shares([3, 5], world_size=4, threads=1, shared=True) == [(3,), (3,), (5,), (5,)]
    config = a_config(tmp_path, launches=0, collectives="count")
    shared = replace(config, device=replace(config.device, share_cores=True, world_size=4))
    assert config_hash(shared) != config_hash(replace(config, device=replace(config.device, world_size=4)))
    timed = a_config(tmp_path, launches=2, collectives="count").measure
    with pytest.raises(UserError, match="so that nothing can be timed; set measure=parity"):
        replace(shared, measure=timed)
    with pytest.raises(UserError, match="take turns on its cores"):
        replace(config.device, share_cores=True, type="cuda")


@pytest.mark.parametrize(("kind", "times"), [("all_reduce", 2), ("all_gather", 1), ("gather", 0)])
def test_a_rank_sends_what_a_ring_sends(kind: str, times: int) -> None:
    one = Collective(kind=kind, bytes=4000, element_bytes=4)
    assert sent_bytes(one, 1) == 0
    assert sent_bytes(one, 4) == times * 3000


def test_of_a_comparison_that_times_nothing_they_are_counted_when_wanted_later(tmp_path: Path) -> None:
    parity: dict[str, Any] = {"measure": {"launches": 0}, "resume": True}
    diverged: dict[str, Script] = {"ortmodule": {"loss": 2.1}}
    Resumable(tmp_path, diverged, **parity)
    parity["measure"]["collectives"] = "count"
    run = Resumable(tmp_path, diverged, **parity)
    table = COLLECTIVES.read(COLLECTIVES.path_of(run.comparison.shared.output.csv))
    assert set(table["backend"]) == {"pytorch", "ortmodule_zero1"}
    assert Resumable(tmp_path, diverged, **parity).groups == []


def test_a_check_that_is_wanted_later_is_made_up_for_and_none_is_made_again(tmp_path: Path) -> None:
    before = Resumable(tmp_path).rows
    counted = {"collectives": "count"}
    run = Resumable(tmp_path, resume=True, measure=counted)
    assert run.rows == before
    table = COLLECTIVES.path_of(run.comparison.shared.output.csv)
    assert set(COLLECTIVES.read(table)["backend"]) == {"pytorch", "ortmodule", "ortmodule_zero1"}
    assert Resumable(tmp_path, resume=True, measure=counted).groups == []
    written = table.stat().st_mtime_ns
    Resumable(tmp_path, resume=True, measure={"launches": 3, **counted})
    assert table.stat().st_mtime_ns == written


def test_where_every_failure_is_final_nothing_is_missing(tmp_path: Path) -> None:
    lost: dict[str, Script] = {name: {"loss": float("nan")} for name in BACKENDS}
    assert {row["status"] for row in Resumable(tmp_path, lost, measure={"collectives": "count"}).rows} == {
        "diverged",
        "skipped",
    }
    run = Resumable(tmp_path, measure={"collectives": "count"}, resume=True)
    assert run.groups == []
    assert run.printed[-1] == "nothing is missing"
