"""Predictions beside measurements: which points there are, and what each is worked out from."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bench.analysis.scale.estimates import Estimate
from bench.analysis.scale.tables import BYTES, CHECKS, IN_TURN, MEMORY, RATIO, SECONDS
from bench.errors import UserError
from bench.measure.comparison import Comparison
from bench.results import csv_files
from bench.results.step_parts import ModelFacts, ReadyGradients
from bench.scale import check
from bench.scale.check import check_rows
from bench.scale.links import PAYLOAD_SHARE
from bench.scale.measured import merge_sizes, read_measured, spread_of
from tests.support.comparisons import RecordingBar, nobody_looks
from tests.support.configs import a_config
from tests.support.fakes import FakeGroup, starter
from tests.support.result_files import write_rows

FACTS = ModelFacts(
    parameters=1000,
    tensors=(600, 400),
    layers=2,
    layer_parameters=800,
    forward_flops=10,
    backward_flops=20,
    activation_bytes=100,
    layer_activation_bytes=80,
    ready=(ReadyGradients(elements=1000, share=1.0),),
)


def measure(folder: Path, ranks: int, allocator: str, name: str) -> None:
    """A comparison of fake groups: 0.5 s a step, 2 all-reduces of 4,000 bytes that take 1.01 s alone."""
    config = a_config(folder, parts="ladder")
    config = replace(
        config,
        device=replace(config.device, world_size=ranks, allocator=allocator),
        results_dir=str(folder),
    )
    groups: list[FakeGroup] = []
    scripts: dict[str, dict[str, Any]] = {
        "pytorch": {"step_seconds": 0.5},
        "ortmodule": {"step_seconds": 0.4},
        "ortmodule_zero1": {"step_seconds": 0.6},
    }
    comparison = Comparison(
        config,
        f"{name}-cpux{ranks}",
        overrides=["model=m"],
        start_group=cast(Any, starter(scripts, groups)),
        look=nobody_looks,
        bar=RecordingBar(),
    )
    comparison.measure()


Measured = Callable[..., Path]


@pytest.fixture(scope="module")
def originals() -> dict[tuple[int, str, str], Path]:
    """The folders of what has been measured so far."""
    return {}


@pytest.fixture
def measured(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, originals: dict[tuple[int, str, str], Path]
) -> Measured:
    """Puts the files of a comparison, which is measured once for all tests, into the test's folder."""

    def copy(ranks: int, allocator: str = "tuned", name: str = "m") -> Path:
        key = (ranks, allocator, name)
        if key not in originals:
            originals[key] = tmp_path_factory.mktemp("measured")
            measure(originals[key], *key)
        for path in originals[key].glob("*.csv"):
            shutil.copy(path, tmp_path)
        return tmp_path / f"{name}-cpux{ranks}.csv"

    return copy


@pytest.fixture
def rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], dict[tuple[str, str, int], dict[str, Any]]]:
    monkeypatch.setattr(check, "facts_of", lambda overrides: (None, FACTS))

    def read() -> dict[tuple[str, str, int], dict[str, Any]]:
        found = list(check_rows(tmp_path, tmp_path))
        CHECKS.write(tmp_path / "predicted" / "checks.csv", found)
        assert len(CHECKS.read(tmp_path / "predicted" / "checks.csv")) == len(found)
        return {(row["backend"], row["quantity"], row["ranks"]): row for row in found}

    (tmp_path / "predicted").mkdir()
    return read


def test_bytes_come_from_rules_and_shapes_and_are_compared_with_what_was_counted(
    tmp_path: Path, measured: Measured, rows: Callable[[], dict[Any, dict[str, Any]]]
) -> None:
    measured(2)
    row = rows()["pytorch", BYTES, 2]
    assert row["measured"] == 2 * 4000, "two calls; the flag of 4 bytes is none of them"
    assert row["predicted"] == 4000
    assert row["error"] == pytest.approx(-0.5)
    zero = rows()["ortmodule_zero1", BYTES, 2]
    assert zero["predicted"] == 4000 + 1000 * 4 / 2, "an all-reduce and an all-gather"


def test_seconds_are_those_of_parts_and_of_collectives_alone(
    tmp_path: Path, measured: Measured, rows: Callable[[], dict[Any, dict[str, Any]]]
) -> None:
    measured(2)
    row = rows()["pytorch", SECONDS, 2]
    assert row["measured"] == pytest.approx(0.505)
    # The whole step apart, the copies, and the all-reduce, which begins when the backward pass is over.
    assert row["predicted"] == pytest.approx(0.5 + 0.025 + 1.01)
    in_turn = rows()["pytorch", IN_TURN, 2]
    assert in_turn["measured"] == pytest.approx(0.6), "of ranks together, in turn with the parts"
    assert in_turn["predicted"] == row["predicted"]
    # Without a step on one rank nothing is known of what DeepSpeed does besides, nor of what training holds.
    assert ("ortmodule_zero1", SECONDS, 2) not in rows()
    assert ("pytorch", MEMORY, 2) not in rows()


def test_what_a_sharding_does_besides_is_known_from_one_rank_and_so_is_what_training_holds(
    tmp_path: Path, measured: Measured, rows: Callable[[], dict[Any, dict[str, Any]]]
) -> None:
    measured(1)
    measured(2)
    found = rows()
    assert not any(ranks == 1 and quantity == SECONDS for _, quantity, ranks in found)
    # ORTModule's parts with half an update, 0.2 s more on one rank, copies, and two collectives.
    seconds = found["ortmodule_zero1", SECONDS, 2]["predicted"]
    assert seconds == pytest.approx(0.4 - 0.02 + 0.2 + 0.02 + 2 * 1.01)
    ratio = found["ortmodule_zero1", RATIO, 2]
    assert ratio["measured"] == pytest.approx(0.6 / 0.4)
    assert ratio["predicted"] == pytest.approx(seconds / (0.4 + 0.02 + 1.01))
    assert ("ortmodule", RATIO, 2) not in found, "it is the DDP of ORTModule"
    memory = found["ortmodule_zero1", MEMORY, 1]
    start = memory["measured"]
    # On one rank ZeRO-1 holds a copy of its part of the weights, a bucket and a part of the gradients.
    assert memory["predicted"] == pytest.approx(start + 4000 + 4000 + 4000)
    assert ("pytorch", MEMORY, 1) not in found, "it is what the others start from"
    assert found["pytorch", MEMORY, 2]["predicted"] == pytest.approx(start + 4000), "DDP's buckets"


def test_what_was_weighed_under_another_malloc_is_not_compared(
    tmp_path: Path, measured: Measured, rows: Callable[[], dict[Any, dict[str, Any]]]
) -> None:
    measured(1)
    measured(2, allocator="system")
    assert ("ortmodule_zero1", MEMORY, 1) in rows()
    assert not any(quantity == MEMORY for _, quantity, ranks in rows() if ranks == 2)


def test_steps_of_another_stack_are_not_compared(
    tmp_path: Path, measured: Measured, rows: Callable[[], dict[Any, dict[str, Any]]]
) -> None:
    measured(2)
    path = measured(1)
    assert ("ortmodule_zero1", SECONDS, 2) in rows()
    path.write_text(path.read_text(encoding="utf-8").replace(",ort,", ",modern,"), encoding="utf-8")
    assert ("ortmodule_zero1", SECONDS, 2) not in rows()


def test_a_slow_link_adds_what_passes_it_and_what_was_timed_over_it_counts_for_nothing(
    tmp_path: Path, measured: Measured, rows: Callable[[], dict[Any, dict[str, Any]]]
) -> None:
    measured(1)
    measured(2)
    over_a_link = measured(2, name="link-7gbit")  # which says nothing: the column does
    table = csv_files.read(over_a_link).assign(link_gbit_per_s=0.001)
    write_rows(over_a_link, table.to_dict("records"))
    found = [row for row in check_rows(tmp_path, tmp_path) if row["backend"] == "pytorch"]

    def of(quantity: str) -> dict[str, tuple[float, float]]:
        return {
            row["link"]: (row["measured"], row["predicted"]) for row in found if row["quantity"] == quantity
        }

    link = "0.001 Gbit/s"
    assert of(SECONDS)["loopback"] == pytest.approx((0.505, 1.535))
    # The gradients' 4,000 bytes pass it while the all-reduce works.
    assert of(SECONDS)[link] == pytest.approx((0.505, 1.535))
    assert of(IN_TURN)[link] == pytest.approx((0.6, 1.535)), "with the parts that were timed beside it"
    # DeepSpeed's all-gather does not: that of 4,000 bytes, of which each rank sends a half.
    over_link, without = (
        next(
            row["predicted"]
            for row in check_rows(tmp_path, tmp_path)
            if (row["backend"], row["quantity"], row["link"]) == ("ortmodule_zero1", SECONDS, which)
        )
        for which in (link, "loopback")
    )
    assert over_link - without == pytest.approx(2000 / 125_000 / PAYLOAD_SHARE)
    assert set(of(BYTES)) == {"loopback"}, "a link changes nothing of it"
    # The largest of the ladder; over this link it took no longer, since the groups are fake.
    assert of("seconds of one all_reduce") == {
        link: pytest.approx((1.01, (256 << 20) / 125_000 / PAYLOAD_SHARE))
    }


def test_machines_are_not_mixed(
    tmp_path: Path, measured: Measured, rows: Callable[[], dict[Any, dict[str, Any]]]
) -> None:
    other = csv_files.read(measured(2))
    environment = json.loads(other["environment"].iloc[0])
    environment["cpu"]["model"] = "another"
    other.assign(environment=json.dumps(environment)).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(UserError, match="are of several kinds of CPU"):
        rows()


def test_bounds_are_those_of_the_mean_over_launches() -> None:
    assert spread_of([2.0]) == Estimate.exactly(2.0)
    two = spread_of([1.0, 1.1])
    assert two.low < 1.0 < two.value < 1.1 < two.high
    assert spread_of([1.0, 100.0]).high == pytest.approx(40.0), "of two launches an interval says little"


def test_the_first_files_timing_of_a_size_counts(tmp_path: Path, measured: Measured) -> None:
    measured(2)
    (one,) = read_measured(tmp_path)
    sizes = one.timed_sizes(["pytorch"])
    assert [each.size for each in sizes["all_reduce"]][:3] == [4, 4000, 4096]
    merged = merge_sizes(sizes, {"all_reduce": [], "reduce": sizes["all_reduce"]})
    assert merged["reduce"] == sizes["all_reduce"]
    assert merged["all_reduce"] == sizes["all_reduce"]
