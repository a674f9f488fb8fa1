"""What has changed between two results files, and which change is a regression."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.compare.__main__ import main
from bench.compare.changes import compare
from bench.compare.differences import named_differences
from bench.results import csv_files
from bench.results.records import Record
from tests.support.compared import line_of
from tests.support.factories import (
    ENVIRONMENT,
    MIB,
    comparison,
    failed,
    noisy_seconds,
    two_backends,
    with_environment,
    workload,
)
from tests.support.result_files import table_of_records, write_records, write_rows

TOLERANCES = {"throughput": 0.02, "speedup": 0.02, "memory": 0.05}

Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Compare:
    """Writes two files, compares them, and returns exit status, output and errors."""

    def run(base: list[Record], new: list[Record], *options: str) -> tuple[int, str, str]:
        paths = [tmp_path / "base.csv", tmp_path / "new.csv"]
        for path, records in zip(paths, (base, new), strict=True):
            write_records(path, records)
        status = main([*map(str, paths), *options])
        output = capsys.readouterr()
        return status, output.out, output.err

    return run


# Verdicts and exit status


ONE_BACKEND = comparison({"pytorch": noisy_seconds(2.0, 1)})

CASES: dict[str, tuple[list[Record], list[Record], str, str]] = {
    "identical files": (two_backends(), two_backends(), "same", ""),
    "noise": (two_backends(1), two_backends(2), "same", ""),
    "a slowdown of ten per cent": (two_backends(1), two_backends(2, ort=1.65), "slower", "throughput"),
    "a faster backend": (two_backends(1), two_backends(2, ort=1.2), "faster", ""),
    "a slowdown that noise could explain": (
        comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.2], [1.8]]}),
        comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.3], [2.0]]}),
        "inconclusive",
        "",
    ),
    "it no longer runs": (
        two_backends(),
        [*ONE_BACKEND, failed("ortmodule", "crashed", "died")],
        "crashed",
        "status",
    ),
    "it is no longer measured": (two_backends(), ONE_BACKEND, "not measured", "status"),
    "it failed before": ([*ONE_BACKEND, failed("ortmodule", "oom", "full")], two_backends(), "oom", ""),
    "it was not measured before": (ONE_BACKEND, two_backends(), "not measured", ""),
}
"""Two files, what stands in the line of ortmodule, and what of it is a regression."""


@pytest.mark.parametrize("case", CASES)
def test_a_regression_is_one_of_its_backend_only(pair: Compare, case: str) -> None:
    base, new, words, worse = CASES[case]
    status, output, errors = pair(base, new)
    assert (status, errors) == (1 if worse else 0, "")
    assert words in line_of(output, "ortmodule")
    assert output.count("REGRESSION") == bool(worse)
    assert not worse or f"REGRESSION: {worse}" in output
    assert "nothing differs in the environment" in output


def test_a_file_without_an_interval_is_not_compared_however_many_others_are_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, slower in (("base", 1.0), ("new", 1.4)):
        (tmp_path / folder).mkdir()
        write_records(tmp_path / folder / "same.csv", two_backends())
        one_launch = comparison({"pytorch": [[2.0, 2.1]], "ortmodule": [[slower, slower]]})
        write_records(tmp_path / folder / "short.csv", one_launch)
    status = main([str(tmp_path / "base"), str(tmp_path / "new")])
    output = capsys.readouterr()
    assert status == 2
    assert "1 file could not be compared" in output.out
    assert "short: nothing could be compared" in output.err
    assert "measure with measure.launches=2 or more" in output.err


def test_a_machine_that_drifts_moves_the_throughputs_and_not_the_change_of_the_speedup() -> None:
    drift = 1.1
    base, new = (
        table_of_records(
            comparison({"pytorch": noisy_seconds(2.0 * f, 1), "ortmodule": noisy_seconds(1.5 * f, 2)})
        )
        for f in (1.0, drift)
    )
    reference, mine = compare(base, new, TOLERANCES)
    assert mine.ratio is not None
    assert mine.speedup_change is not None
    assert mine.ratio.ratio == pytest.approx(1 / drift, rel=1e-12)
    assert mine.speedup_change.ratio == pytest.approx(1.0, rel=1e-12)
    assert reference.speedup_change is None


def test_the_ratio_of_throughputs_is_new_over_base() -> None:
    base = table_of_records(comparison({"pytorch": [[2.0], [2.0]]}))
    new = table_of_records(comparison({"pytorch": [[1.6], [1.6]]}))
    (change,) = compare(base, new, TOLERANCES)
    assert (change.base, change.new) == ("80.00", "100.0")
    assert change.ratio is not None
    assert change.ratio.ratio == pytest.approx(1.25, rel=1e-12)
    assert change.verdict == "faster"


# What cannot be compared


def on_cpu(**changes: Any) -> dict[str, Any]:
    return {"environment": ENVIRONMENT | {"cpu": ENVIRONMENT["cpu"] | changes}}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"device": "cuda"}, "device (cpu, cuda)"),
        ({"threads_per_rank": 2}, "threads_per_rank (1, 2)"),
        ({"cores_per_rank": 2}, "cores_per_rank (1, 2)"),
        ({"workload": workload(world_size=4)}, "world_size (2, 4)"),
        ({"workload": workload(nodes=2)}, "nodes (1, 2)"),
        ({"workload": workload(link_gbit_per_s=1.0)}, "link_gbit_per_s (, 1.0)"),
        ({"workload": workload(model="gpt2")}, "model (bert-tiny, gpt2)"),
        ({"workload": workload(task="causal-lm")}, "task (masked-lm, causal-lm)"),
        ({"workload": workload(micro_batch=8)}, "micro_batch (4, 8); global_batch (16, 32)"),
        ({"workload": workload(micro_batch=8, grad_accum=1)}, "micro_batch (4, 8); grad_accum (2, 1)"),
        ({"workload": workload(padding_share=0.5)}, "padding_share (0.25, 0.5)"),
        ({"workload": workload(seq_len=64)}, "seq_len (128, 64)"),
        ({"workload": workload(precision="tf32")}, "precision (fp32, tf32)"),
        ({"workload": workload(attention="sdpa")}, "attention (eager, sdpa)"),
        ({"workload": workload(batch_rule="max")}, "batch_rule (equal, max)"),
        ({"workload": workload(memory_limit_gib=8.0)}, "memory_limit_gib"),
        (
            {"environment": ENVIRONMENT | {"cpu": {"model": "Other CPU"}}},
            "the kinds of machine (Example CPU (Example family 7, model 3, stepping 1), instruction sets avx "
            "avx2 fma; Other CPU (family and model not recorded), instruction sets not recorded)",
        ),
        (on_cpu(family=8, model_number=2), "family 8, model 2, stepping 1), instruction sets avx avx2 fma)"),
        (on_cpu(instruction_sets=["avx2"]), "stepping 1), instruction sets avx2) differ between base and n"),
        ({"environment": ENVIRONMENT | {"gpus": [{"name": "H200"}]}}, "avx avx2 fma; H200, Example CPU"),
    ],
)
def test_other_hardware_or_another_workload_is_refused_by_name(
    pair: Compare, changes: dict[str, Any], named: str
) -> None:
    two = {"pytorch": [[2.0], [2.1]]}
    status, output, errors = pair(comparison(two), comparison(two, **changes))
    assert (status, output) == (2, "")
    assert named in errors
    assert errors.count("\n") == 1


def test_other_versions_are_compared_and_named(pair: Compare) -> None:
    new = with_environment(two_backends(), packages={**ENVIRONMENT["packages"], "torch": "2.7.0"})
    status, output, _ = pair(two_backends(), new)
    assert status == 0
    assert "packages.torch: 2.6.0, now 2.7.0" in output


def test_more_memory_is_a_regression_of_its_own(pair: Compare) -> None:
    more = (500 * MIB, 600 * MIB)
    records = [
        dataclasses.replace(
            one, blocks=tuple(dataclasses.replace(block, host_peak_bytes=more) for block in one.blocks)
        )
        for one in two_backends()
    ]
    status, output, _ = pair(two_backends(), records)
    assert status == 1
    assert "REGRESSION: memory" in output
    assert "1.200×" in line_of(output, "pytorch")
    assert pair(records, two_backends())[0] == 0


def test_memory_is_that_of_each_launch_s_highest_block() -> None:
    base = table_of_records(comparison({"pytorch": [[2.0] * 8, [2.0] * 8]}))
    new = base.copy()
    new.loc[new["round"] > 6, "host_peak_mib"] *= 1.5
    (change,) = compare(base, new, TOLERANCES)
    assert change.memory_change is not None
    assert change.memory_change.ratio == pytest.approx(1.5, rel=1e-12)
    assert change.regressions == ("memory",)


def test_memory_with_pages_of_files_is_never_compared_with_memory_without_them() -> None:
    base = table_of_records(comparison({"pytorch": [[2.0] * 8, [2.0] * 8]}))
    new = base.assign(host_peak_mib=base["host_peak_mib"] * 1.5, host_anonymous_peak_mib=100.0)
    (change,) = compare(base, new, TOLERANCES)
    assert change.memory_change is None
    (change,) = compare(base.assign(host_anonymous_peak_mib=80.0), new, TOLERANCES)
    assert change.memory_change is not None
    assert change.memory_change.ratio == pytest.approx(1.25, rel=1e-12), "libraries' pages do not count"


MISSING_ROWS: dict[str, tuple[Callable[[pd.DataFrame], Any], str]] = {
    "half of the rounds": (lambda rows: rows["round"] <= 2, "3 launches, 6 rounds"),
    "half of the launches": (lambda rows: rows["launch"] <= 2, "2 launches, 10 rounds"),
    "cut off at a row's end": (lambda rows: rows.index < 27, "3 launches, 15 rounds, 12 of ortmodule"),
    "in the middle": (lambda rows: rows["round"] + rows["launch"] != 4, "3 launches, 12 rounds"),
    "of one backend": (
        lambda rows: (rows["backend"] == "pytorch") | (rows["launch"] < 3),
        "3 launches, 15 rounds, 10 of ortmodule",
    ),
}


@pytest.mark.parametrize("name", MISSING_ROWS)
def test_rows_that_are_missing_are_said(pair: Compare, tmp_path: Path, name: str) -> None:
    keep, words = MISSING_ROWS[name]
    pair(two_backends(), two_backends())
    rows = csv_files.read(tmp_path / "new.csv")
    write_rows(tmp_path / "new.csv", rows.loc[keep(rows)].to_dict("records"))
    found = named_differences(csv_files.read(tmp_path / "base.csv"), csv_files.read(tmp_path / "new.csv"))
    known = "measured: 3 launches, 15 rounds; now "
    assert f"{known}{words} (other settings, interrupted, or rows were deleted)" in found


def at_largest(orts: int = 34) -> list[Record]:
    """Three launches of two backends, each at its own micro-batch."""
    return [
        dataclasses.replace(
            one,
            workload=workload(
                micro_batch=18 if one.backend == "pytorch" else orts,
                padding_share=0.25 + orts / 1000,  # of other batches
                batch_rule="max",
                memory_limit_gib=4.0,
            ),
        )
        for one in two_backends()
    ]


def test_another_largest_batch_is_a_result_and_is_shown(pair: Compare) -> None:
    status, output, errors = pair(at_largest(), at_largest(orts=40))
    assert (status, errors) == (0, "")
    assert "largest micro-batch of ortmodule: 34, now 40" in output
    assert "largest micro-batch of pytorch" not in output
    assert "largest micro-batch" not in pair(at_largest(), at_largest())[1]


# A backend that is another one than that of the same name in the earlier file


@pytest.mark.parametrize(
    ("column", "value", "named"),
    [
        ("engine", "compile", "engine ortmodule, now compile"),
        ("engine_options", "compute_optimizer=false", "engine_options blank, now compute_optimizer=false"),
        ("optimizer", "adamw_8bit", "optimizer adamw_fused, now adamw_8bit"),
        ("sharding", "zero2", "sharding ddp, now zero2"),
        ("loop", "trainer", "loop bare, now trainer"),
        ("loader", "workers=2", "loader blank, now workers=2"),
        ("slowed_by", 0.05, "slowed_by 0, now 0.05"),
    ],
)
def test_another_backend_of_the_same_name_has_no_ratio_and_is_named(
    column: str, value: str | float, named: str
) -> None:
    base, new = (table_of_records(two_backends()) for _ in range(2))
    new.loc[new["backend"] == "ortmodule", column] = value
    same, other = compare(base, new, TOLERANCES)
    assert same.verdict == "same"
    assert (other.ratio, other.memory_change, other.verdict, other.regressions) == (None, None, "", ())
    assert other.base == other.new != ""
    assert f"ortmodule: {named}" in named_differences(base, new)


def test_a_choice_that_two_backends_swap_is_seen() -> None:
    base, new = (table_of_records(two_backends()) for _ in range(2))
    for table, name in ((base, "pytorch"), (new, "ortmodule")):
        table.loc[table["backend"] == name, "attention"] = "sdpa"
    assert [change.ratio for change in compare(base, new, TOLERANCES)] == [None, None]


def test_a_speedup_over_another_reference_of_the_same_name_is_no_change() -> None:
    base, new = (table_of_records(two_backends()) for _ in range(2))
    new.loc[new["backend"] == "pytorch", "optimizer"] = "adamw_fused"
    _, other = compare(base, new, TOLERANCES)
    assert other.ratio is not None
    assert other.speedup_change is None


def test_another_reference_and_another_kernel_of_the_optimizer_are_named() -> None:
    base, new = (table_of_records(two_backends()) for _ in range(2))
    base["optimizer_implementation"], new["optimizer_implementation"] = "foreach", "fused"
    new["reference"] = "ortmodule"
    assert named_differences(base, new) == [
        "reference: pytorch, now ortmodule",
        "optimizer_implementation: foreach, now fused",
    ]
