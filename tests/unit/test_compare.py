import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.compare.__main__ import main
from bench.compare.changes import compare
from bench.results import csv_files
from bench.results.records import Record
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

ROOT = Path(__file__).parents[2]

TOLERANCES = {"throughput": 0.02, "speedup": 0.02, "memory": 0.05}

Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Compare:
    """Writes two files, compares them, and returns exit status, output and errors."""

    def run(base: list[Record], new: list[Record], *options: str) -> tuple[int, str, str]:
        paths = [tmp_path / "base.csv", tmp_path / "new.csv"]
        for path, records in zip(paths, (base, new), strict=True):
            csv_files.write_records(path, records)
        status = main([*map(str, paths), *options])
        output = capsys.readouterr()
        return status, output.out, output.err

    return run


def line(output: str, backend: str) -> str:
    return next(words for words in output.splitlines() if f"{backend} " in words)


# Verdicts and exit status


def test_identical_files_are_fine(pair: Compare) -> None:
    status, output, errors = pair(two_backends(), two_backends())
    assert (status, errors) == (0, "")
    assert "1.000×" in line(output, "ortmodule")
    assert "same" in line(output, "ortmodule")
    assert "nothing differs in the environment" in output


def test_noise_is_fine(pair: Compare) -> None:
    status, output, _ = pair(two_backends(seed=1), two_backends(seed=2))
    assert status == 0
    assert "REGRESSION" not in output


def test_a_planted_slowdown_of_ten_percent_is_a_regression_of_that_backend_only(
    pair: Compare,
) -> None:
    status, output, _ = pair(two_backends(seed=1), two_backends(seed=2, ort=1.5 * 1.1))
    assert status == 1
    assert "slower" in line(output, "ortmodule")
    assert output.count("REGRESSION") == 1
    assert "REGRESSION: throughput" in output
    assert "same" in line(output, "pytorch")


def test_a_faster_backend_is_no_regression(pair: Compare) -> None:
    status, output, _ = pair(two_backends(seed=1), two_backends(seed=2, ort=1.2))
    assert status == 0
    assert "faster" in line(output, "ortmodule")


def test_a_slowdown_within_the_tolerance_is_fine(pair: Compare, tmp_path: Path) -> None:
    base, new = two_backends(seed=1), two_backends(seed=2, ort=1.5 * 1.1)
    mild = tmp_path / "mild.yaml"
    mild.write_text("{throughput: 0.15, speedup: 0.15, memory: 0.05}")
    assert pair(base, new, "--tolerances", str(mild))[0] == 0


def test_a_slowdown_that_noise_could_explain_is_fine(pair: Compare) -> None:
    base = comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.2], [1.8]]})
    new = comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.3], [2.0]]})
    status, output, _ = pair(base, new)
    assert status == 0
    assert "inconclusive" in line(output, "ortmodule")


def test_a_machine_that_drifts_moves_the_throughputs_and_not_the_change_of_the_speedup() -> None:
    drift = 1.1
    base, new = (
        csv_files.table_of_records(
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
    base = csv_files.table_of_records(comparison({"pytorch": [[2.0], [2.0]]}))
    new = csv_files.table_of_records(comparison({"pytorch": [[1.6], [1.6]]}))
    (change,) = compare(base, new, TOLERANCES)
    assert (change.base, change.new) == ("80.00", "100.0")
    assert change.ratio is not None
    assert change.ratio.ratio == pytest.approx(1.25, rel=1e-12)
    assert change.verdict == "faster"


def test_a_backend_that_no_longer_runs_is_shown_by_its_status_and_is_a_regression(
    pair: Compare,
) -> None:
    new = [*comparison({"pytorch": noisy_seconds(2.0, 1)}), failed("ortmodule", "crashed", "died")]
    status, output, _ = pair(two_backends(), new)
    assert status == 1
    assert "crashed" in line(output, "ortmodule")
    assert "REGRESSION: status" in output


def test_a_backend_that_failed_in_the_base_is_shown_by_its_status_and_is_fine(
    pair: Compare,
) -> None:
    base = [*comparison({"pytorch": noisy_seconds(2.0, 1)}), failed("ortmodule", "oom", "full")]
    status, output, _ = pair(base, two_backends())
    assert status == 0
    assert "oom" in line(output, "ortmodule")


def test_a_backend_of_one_file_only_is_not_measured_in_the_other(pair: Compare) -> None:
    status, output, _ = pair(comparison({"pytorch": noisy_seconds(2.0, 1)}), two_backends())
    assert status == 0
    assert "not measured" in line(output, "ortmodule")


def test_single_launches_cannot_be_compared_across_runs(pair: Compare) -> None:
    lone = comparison({"pytorch": [[2.0, 2.1]]})
    status, output, errors = pair(lone, lone)
    assert status == 2
    assert "no interval" in output
    assert "measure.launches=2" in errors


# What cannot be compared


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"device": "cuda"}, "device (cpu, cuda)"),
        ({"threads_per_rank": 2}, "threads_per_rank (1, 2)"),
        ({"cores_per_rank": 2}, "cores_per_rank (1, 2)"),
        ({"workload": workload(world_size=4)}, "world_size (2, 4)"),
        ({"workload": workload(model="gpt2")}, "model (bert-tiny, gpt2)"),
        ({"workload": workload(task="causal-lm")}, "task (masked-lm, causal-lm)"),
        ({"workload": workload(micro_batch=8)}, "micro_batch (4, 8); global_batch (16, 32)"),
        ({"workload": workload(micro_batch=8, grad_accum=1)}, "micro_batch (4, 8); grad_accum (2, 1)"),
        ({"workload": workload(padding_share=0.5)}, "padding_share (0.25, 0.5)"),
        ({"workload": workload(seq_len=64)}, "seq_len (128, 64)"),
        ({"workload": workload(precision="tf32")}, "precision (fp32, tf32)"),
        ({"workload": workload(attention="sdpa")}, "attention (eager, sdpa)"),
        (
            {"environment": ENVIRONMENT | {"cpu": {"model": "Other CPU"}}},
            "cpu model (Example CPU, Other CPU)",
        ),
        (
            {"environment": ENVIRONMENT | {"gpus": [{"name": "H200"}]}},
            "gpu names ([], ['H200'])",
        ),
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


def test_a_missing_or_truncated_file_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, half = tmp_path / "good.csv", tmp_path / "half.csv"
    csv_files.write_records(good, two_backends())
    half.write_bytes(good.read_bytes()[:-20])
    for other, words in ((half, "is damaged"), (tmp_path / "none.csv", "cannot be read")):
        assert main([str(good), str(other)]) == 2
        errors = capsys.readouterr().err
        assert words in errors
        assert errors.count("\n") == 1


def test_a_name_of_nothing_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err == (
        "nothing is no file, no folder and no git revision; check the path, or `git log`\n"
    )


def test_a_backend_that_is_no_longer_measured_is_a_regression(pair: Compare) -> None:
    fewer = [one for one in two_backends() if one.backend == "pytorch"]
    status, output, _ = pair(two_backends(), fewer)
    assert status == 1
    assert "not measured" in line(output, "ortmodule")
    assert pair(fewer, two_backends())[0] == 0


def test_a_new_file_that_is_damaged_is_no_new_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("base", "new"):
        csv_files.write_records(tmp_path / name / "a.csv", two_backends())
    (tmp_path / "new" / "b.csv").write_text("city,population\n")
    assert main([str(tmp_path / "base"), str(tmp_path / "new")]) == 2
    output = capsys.readouterr()
    assert "is new" not in output.out
    assert "b.csv is not a results file" in output.err or "b.csv is damaged" in output.err


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
    assert "1.200×" in line(output, "pytorch")
    assert pair(records, two_backends())[0] == 0


def test_markdown_holds_the_same_for_a_pull_request(pair: Compare) -> None:
    status, output, _ = pair(two_backends(seed=1), two_backends(seed=2, ort=1.5 * 1.1), "--markdown")
    assert status == 1
    rows = [words for words in output.splitlines() if words.startswith("|")]
    assert rows[0].startswith("| backend | base samples/s | new samples/s |")
    assert rows[3].startswith("| ortmodule | 106.")
    assert rows[3].endswith("| slower REGRESSION: throughput, speedup |")
    assert "- nothing differs in the environment" in output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{throughput: 0.02", "cannot be read as YAML"),
        ("throughput: 0.02", "must hold throughput, speedup, memory, and nothing else"),
        ("{throughput: 2, speedup: 0.02, memory: 0.05}", "throughput is a share from 0 to below 1, not 2"),
        ("[]", "must hold"),
    ],
)
def test_wrong_tolerances_are_one_sentence(pair: Compare, tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "t.yaml").write_text(content)
    status, _, errors = pair(two_backends(), two_backends(), "--tolerances", str(tmp_path / "t.yaml"))
    assert status == 2
    assert words in errors
    assert errors.count("\n") == 1


# Folders and revisions


def test_folders_are_paired_by_name_and_what_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv_files.write_records(tmp_path / "old" / "a.csv", two_backends(seed=1))
    csv_files.write_records(tmp_path / "old" / "b.csv", two_backends(seed=1))
    csv_files.write_records(tmp_path / "new" / "a.csv", two_backends(seed=2))
    csv_files.write_records(tmp_path / "new" / "c.csv", two_backends(seed=2))
    folders = [str(tmp_path / name) for name in ("old", "new")]
    assert main(folders) == 2
    output = capsys.readouterr()
    assert "same" in line(output.out, "ortmodule")
    assert "c is new" in output.out
    assert output.err.startswith("b is in ")
    (tmp_path / "old" / "b.csv").unlink()
    assert main(folders) == 0


# The working tree against its last commit


def git(*arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)
    git("init")
    return tmp_path


def test_the_working_tree_is_compared_with_its_committed_files_and_new_ones_are_named(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv_files.write_records(checkout / "results" / "a.csv", two_backends(seed=1))
    git("add", ".")
    git("commit", "-m", "base")
    csv_files.write_records(checkout / "results" / "a.csv", two_backends(seed=2))
    csv_files.write_records(checkout / "results" / "b.csv", two_backends(seed=3))
    assert main([]) == 0
    assert "b is new" in capsys.readouterr().out

    csv_files.write_records(checkout / "results" / "a.csv", two_backends(seed=2, torch=2.3))
    assert main([]) == 1


def test_revisions_are_compared_with_each_other_and_with_the_working_tree(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, ort in ((1, 1.5), (2, 1.8)):
        csv_files.write_records(checkout / "results" / "a.csv", two_backends(seed=seed, ort=ort))
        git("add", ".")
        git("commit", "-m", "measured")
    assert main(["HEAD~1", "HEAD"]) == 1
    assert main(["HEAD~1"]) == 1
    capsys.readouterr()
    assert main(["HEAD", "HEAD~1"]) == 0
    assert "faster" in line(capsys.readouterr().out, "ortmodule")
    (checkout / "results" / "a.csv").unlink()
    assert main([]) == 2


def test_a_damaged_file_stops_no_other_and_is_not_passed_over(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stem in ("a", "b"):
        csv_files.write_records(checkout / "results" / f"{stem}.csv", two_backends())
    git("add", ".")
    git("commit", "-m", "base")
    (checkout / "results" / "a.csv").write_text("half")
    assert main([]) == 2
    output = capsys.readouterr()
    assert "a.csv is damaged" in output.err
    assert "same" in line(output.out, "ortmodule")


def test_without_git_two_files_have_to_be_named(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert main([]) == 2
    assert "git is not installed; install it, or name two files" in capsys.readouterr().err


def test_before_the_first_commit_everything_is_new_and_nothing_compared(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv_files.write_records(checkout / "results" / "a.csv", two_backends())
    assert main([]) == 2
    assert "a is new" in capsys.readouterr().out


def test_outside_a_checkout_the_sentence_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main([]) == 2
    assert "name two files" in capsys.readouterr().err


def at_largest(torchs: int = 18, orts: int = 34, **changes: Any) -> list[Record]:
    """Three launches of two backends, each at its own micro-batch."""
    return [
        dataclasses.replace(
            one,
            workload=workload(
                micro_batch=torchs if one.backend == "pytorch" else orts,
                padding_share=0.25 + orts / 1000,  # of other batches
                **{"batch_rule": "max", "memory_limit_gib": 4.0} | changes,
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


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"batch_rule": "equal"}, "batch_rule (max, equal)"), ({"memory_limit_gib": 8.0}, "memory_limit_gib")],
)
def test_another_rule_or_limit_is_another_workload(
    pair: Compare, changes: dict[str, Any], named: str
) -> None:
    status, _, errors = pair(at_largest(), at_largest(**changes))
    assert status == 2
    assert named in errors
