"""The parts of steps: what is asked for, what is written of it, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from bench.config.identity import config_hash
from bench.errors import UserError
from bench.measure.plan.cores import core_shares
from bench.results.collectives import Collective, sent_bytes
from bench.results.side_files import STEP_PARTS
from tests.support.comparisons import Simulated
from tests.support.configs import a_config


def parts_of(simulated: Simulated) -> pd.DataFrame:
    return STEP_PARTS.read(STEP_PARTS.path_of(simulated.comparison.shared.output.csv))


def test_every_backend_is_taken_apart_in_fresh_processes_after_the_timed_launches(tmp_path: Path) -> None:
    simulated = Simulated(tmp_path, parts="step")
    table = parts_of(simulated)
    assert set(table["backend"]) == {"pytorch", "ortmodule", "ortmodule_zero1"}
    assert set(table["launch"]) == {1, 2}
    mine = table[(table["backend"] == "pytorch") & (table["launch"] == 1)]
    parts = mine[mine["item"] == "part"].set_index("name")["seconds"]
    assert parts["forward"] == pytest.approx(0.3 * 0.5)
    assert parts["whole"] == pytest.approx(0.5)
    assert parts["together"] == pytest.approx(0.6)
    assert list(mine[mine["item"] == "gradients"]["elements"]) == [250, 1000]
    memory = mine[mine["item"] == "memory"].set_index("name")["whole_bytes"]
    assert memory["runtime"] == 50 << 20
    assert memory["peak"] > memory["runtime"]


def test_a_collective_has_the_seconds_of_its_slowest_rank(tmp_path: Path) -> None:
    table = parts_of(Simulated(tmp_path, parts="step"))
    mine = table[(table["backend"] == "pytorch") & (table["launch"] == 1) & (table["item"] == "collective")]
    gradients = mine[mine["whole_bytes"] == 4000].iloc[0]
    assert gradients["calls"] == 2
    assert gradients["seconds"] == pytest.approx(1.01)
    assert gradients["cpu_s"] == pytest.approx(1.0)
    (unknown,) = mine[mine["name"] == "gather"].itertuples()
    assert unknown.calls == 1
    assert pd.isna(unknown.seconds)


def test_a_ladder_times_every_kind_at_many_sizes_and_counting_times_nothing(tmp_path: Path) -> None:
    ladder = parts_of(Simulated(tmp_path / "ladder", parts="ladder"))
    timed = ladder[(ladder["item"] == "collective") & (ladder["calls"] == 0)]
    assert set(timed["name"]) == {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"}
    assert timed["whole_bytes"].min() == 4096
    assert timed["whole_bytes"].max() == 256 << 20
    counted = parts_of(Simulated(tmp_path / "count", parts="count"))
    assert set(counted["item"]) == {"memory", "collective"}
    assert counted["seconds"].isna().all()
    assert set(counted["launch"]) == {1}


def test_what_fails_leaves_a_row_that_says_so_and_hides_nothing(tmp_path: Path) -> None:
    failure = ("unsupported", "it cannot train apart")
    simulated = Simulated(tmp_path, {"ortmodule": {"fails": {("time_parts", 1, 1): failure}}}, parts="step")
    table = parts_of(simulated)
    mine = table[(table["backend"] == "ortmodule") & (table["launch"] == 1)]
    assert list(mine["status"].unique()) == ["ok", "unsupported"]
    assert (mine["item"] == "collective").any()
    assert not (mine["item"] == "part").any()
    assert not simulated.failures
    assert "parts of a step of ortmodule: it cannot train apart" in simulated.printed


def test_parity_alone_can_be_counted_and_nobody_asks_for_parts_by_default(tmp_path: Path) -> None:
    assert set(parts_of(Simulated(tmp_path / "parity", launches=0, parts="count"))["backend"]) == {
        "pytorch",
        "ortmodule",
        "ortmodule_zero1",
    }
    usual = Simulated(tmp_path / "usual")
    assert not STEP_PARTS.path_of(usual.comparison.shared.output.csv).exists()


def test_taking_steps_apart_changes_nothing_that_is_measured(tmp_path: Path) -> None:
    assert config_hash(a_config(tmp_path, parts="step")) == config_hash(a_config(tmp_path))


def test_ranks_that_share_cores_are_counted_and_never_timed(tmp_path: Path) -> None:
    assert core_shares([3, 5], world_size=4, threads=1, shared=True) == [(3,), (3,), (5,), (5,)]
    config = a_config(tmp_path, launches=0, parts="count")
    shared = replace(config, device=replace(config.device, share_cores=True, world_size=4))
    assert config_hash(shared) != config_hash(replace(config, device=replace(config.device, world_size=4)))
    for measure in ({"launches": 2, "parts": "count"}, {"launches": 0, "parts": "step"}):
        timed = a_config(tmp_path, **measure).measure  # type: ignore[arg-type]
        with pytest.raises(
            UserError, match=r"so that nothing can be timed; set measure=parity measure.parts="
        ):
            replace(shared, measure=timed)
    with pytest.raises(UserError, match="take turns on its cores"):
        replace(config.device, share_cores=True, type="cuda")


@pytest.mark.parametrize(("kind", "times"), [("all_reduce", 2), ("all_gather", 1), ("gather", 0)])
def test_a_rank_sends_what_a_ring_sends(kind: str, times: int) -> None:
    one = Collective(kind=kind, bytes=4000, element_bytes=4)
    assert sent_bytes(one, 1) == 0
    assert sent_bytes(one, 4) == times * 3000
