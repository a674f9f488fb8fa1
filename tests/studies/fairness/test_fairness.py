"""What settings add to a speed-up where a harness leaves them alone: taken off again, exactly."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench.results.records import Record
from bench.setup.checkout import ROOT
from bench.studies.attribution.division import subsets_of
from bench.studies.fairness.__main__ import divide_folder
from bench.studies.fairness.division import attribute_to_settings
from tests.support.factories import ENVIRONMENT, comparison, with_environment
from tests.support.git import COMMITTED
from tests.support.result_files import table_of_records

LEFT_ALONE = {"threads": 1.4, "allocator": 1.1, "blas": 1.5}
"""How much faster ORTModule looks where a setting is left alone; by itself it is 1.3 times as fast."""


def uncontrolled(*left_alone: str, noise: float = 0.0, **changes: Any) -> list[Record]:
    """A comparison in which these settings are left alone and the others are held."""
    ratio = 1.3 * math.prod(LEFT_ALONE[setting] for setting in left_alone)
    random = np.random.default_rng([len(setting) for setting in left_alone])
    figures: dict[str, Any] = {
        "study": "fairness",
        "cores_per_rank": 2 if "threads" in left_alone else 1,
        "allocator": "system" if "allocator" in left_alone else "tuned",
        "blas": "stock" if "blas" in left_alone else "full",
    }
    return comparison(
        {
            "pytorch_fused": [[2.0], [2.0], [2.0]],
            "ortmodule": [[2.0 / ratio * math.exp(random.normal(0, noise))] for _ in range(3)],
        },
        reference="pytorch_fused",
        loss_difference=0.0,
        **figures | changes,
    )


def tables_of(comparisons: list[list[Record]]) -> list[pd.DataFrame]:
    return [table_of_records(records) for records in comparisons]


def all_combinations(noise: float = 0.0) -> list[list[Record]]:
    """Eight comparisons: each of the three settings held and left alone. In the first all are held."""
    return [uncontrolled(*subset, noise=noise) for subset in subsets_of(LEFT_ALONE)]


def combinations_with(blas: str) -> list[list[Record]]:
    """Four comparisons with one and the same blas, as on a CPU for which MKL has one path only."""
    return [uncontrolled(*subset, blas=blas) for subset in subsets_of({"threads", "allocator"})]


def test_what_was_left_alone_is_taken_off() -> None:
    found = attribute_to_settings(tables_of(all_combinations()), "ortmodule")
    assert found is not None
    assert found.naive.ratio == pytest.approx(1.3 * 1.4 * 1.1 * 1.5)
    assert found.own.ratio == pytest.approx(1.3)
    assert {part.factor: part.effect.ratio for part in found.parts} == pytest.approx(LEFT_ALONE)
    assert [part.factor for part in found.parts] == ["threads", "allocator", "blas"]


@pytest.mark.parametrize("blas", ["stock", "full"])
def test_a_path_of_mkl_that_is_the_same_everywhere_is_no_part(blas: str) -> None:
    found = attribute_to_settings(tables_of(combinations_with(blas)), "ortmodule")
    assert found is not None
    assert found.naive.ratio == pytest.approx(1.3 * 1.4 * 1.1)
    assert found.own.ratio == pytest.approx(1.3)
    assert [part.factor for part in found.parts] == ["threads", "allocator"]


@pytest.mark.parametrize("settings", [{"threads", "blas"}, {"allocator", "blas"}])
def test_what_can_be_left_alone_on_every_machine_has_to_vary(settings: set[str]) -> None:
    """Otherwise the whole would not be what an uncontrolled harness prints."""
    tables = tables_of([uncontrolled(*subset) for subset in subsets_of(settings)])
    assert attribute_to_settings(tables, "ortmodule") is None


def test_of_two_comparisons_with_the_same_settings_the_later_one_counts() -> None:
    """As where files of an earlier version, whose names say less, lie beside those of this one."""
    (older,) = tables_of([uncontrolled("blas", started_at="2026-11-19T12:00:00Z")])
    older["blas"] = "full"
    for tables in ([older, *tables_of(all_combinations())], [*tables_of(all_combinations()), older]):
        found = attribute_to_settings(tables, "ortmodule")
        assert found is not None
        assert found.own.ratio == pytest.approx(1.3)


def test_naive_is_own_times_the_parts_and_their_intervals_add_up_as_those_of_independent_samples() -> None:
    found = attribute_to_settings(tables_of(all_combinations(noise=0.02)), "ortmodule")
    assert found is not None
    product = found.own.ratio * math.prod(part.effect.ratio for part in found.parts)
    assert product == pytest.approx(found.naive.ratio, rel=1e-12)
    for part in found.parts:
        assert part.effect.low is not None and part.effect.high is not None  # noqa: PT018
        assert part.effect.low < part.effect.ratio < part.effect.high


@pytest.mark.parametrize("missing", range(8))
def test_without_one_of_the_combinations_nothing_is_divided(missing: int) -> None:
    tables = tables_of(all_combinations())
    del tables[missing]
    assert attribute_to_settings(tables, "ortmodule") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu": ENVIRONMENT["cpu"] | {"instruction_sets": ["avx2"]}},  # of the same name
        {"packages": {**ENVIRONMENT["packages"], "torch": "2.7.0"}},
    ],
)
def test_files_of_two_cpus_or_of_other_packages_are_not_combined(changes: dict[str, Any]) -> None:
    one, *others = all_combinations()
    tables = tables_of([with_environment(one, **changes), *others])
    assert attribute_to_settings(tables, "ortmodule") is None


def test_the_table_of_known_issues_is_what_the_committed_files_say() -> None:
    page = (ROOT / "docs" / "known-issues.md").read_text(encoding="utf-8")
    folders = ("amd-family26-model2-2-cores-19a2", "amd-family25-model1-2-cores-8b86")
    found = [divide_folder(COMMITTED / "results" / folder / "fairness", "ortmodule") for folder in folders]
    cells = [
        {part.factor: part.effect for part in each.parts} | {"engine": each.own, "all of it": each.naive}
        for each in found
    ]
    shown = {"blas": "MKL's path"} | {name: name for name in ("threads", "allocator", "engine", "all of it")}
    for name, words in shown.items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {words} |")]
        assert line.endswith(f"| {cells[0][name]} | {cells[1][name]} |".replace("×", ""))
