"""The self-test's tables and its exit status, from rows with known figures."""

import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from bench.config import identity
from bench.config.compose import compose
from bench.errors import Terminated, UserError
from bench.machine import environment
from bench.results.validity import OTHER_PROCESSES
from bench.studies.selfcheck import bare_loop_ranks, overhead, selftest
from bench.studies.selfcheck.outcomes import noise_table, passed, summary_lines, verdict_table
from bench.studies.selfcheck.selftest import describe_outcome
from tests.support.factories import ENVIRONMENT, comparison
from tests.support.result_files import table_of_records

HERE = environment.hash_environment(ENVIRONMENT)

ROOT = Path(__file__).resolve().parents[3]


def rows(seconds: list[list[float]], slowed_by: float = 0.0) -> pd.DataFrame:
    records = comparison({"pytorch": [[2.0] * len(launch) for launch in seconds]})
    records += comparison({"pytorch_again": seconds}, slowed_by=slowed_by)
    return table_of_records(records)


def test_a_comparison_leaves_a_verdict_beside_the_truth() -> None:
    (line,) = verdict_table(rows([[2.1, 2.1]] * 3, 0.05), "both", 4, "quick").to_dict("records")
    expected = {"case": "both", "number": 4, "preset": "quick", "backend": "pytorch_again", "slowed_by": 0.05}
    assert {key: line[key] for key in expected} == expected
    assert line["truth"] == pytest.approx(1 / 1.05)
    assert line["ratio"] == pytest.approx(2.0 / 2.1)
    assert (line["verdict"], line["launches"], line["rounds"]) == ("slower", 3, 6)


def test_a_backend_without_a_speed_up_leaves_its_status() -> None:
    spoilt = rows([[2.0, 2.0]] * 2)
    spoilt.loc[spoilt["backend"] == "pytorch_again", ["status", "invalid_because"]] = (
        "invalid",
        OTHER_PROCESSES,
    )
    (line,) = verdict_table(spoilt, "same", 1, "quick").to_dict("records")
    assert (line["verdict"], line["ratio"]) == ("invalid", None)
    blank = a_table({"same": 40}).assign(ratio=lambda table: table["ratio"].where(table.index > 0))
    assert not passed(blank, [])


def test_the_noise_of_a_round_is_its_log_ratio_less_the_truth() -> None:
    table = noise_table(rows([[2.1, 2.1], [2.1, 2.2]], 0.05), "both", 1)
    assert list(zip(table["launch"], table["round"], strict=True)) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert list(table["noise"][:3]) == pytest.approx([0.0, 0.0, 0.0])
    assert table["noise"].iloc[3] == pytest.approx(-0.0465, abs=1e-4)


def a_table(same: dict[str, int], five: int = 10, two: int = 5, **changes: Any) -> pd.DataFrame:
    """So many A/A verdicts of each kind, and so many A/B that say slower, of 10 and of 5."""
    line = {"case": "c", "number": 1, "preset": "quick", "backend": "b", "margin": 0.02, "model": "m"}
    line |= {"started_at": "2026-11-21T10:00:00", "git_commit": "abc", "device": "cpu", "cpu": "CPU"}
    line |= {"world_size": 2, "threads_per_rank": 1, "micro_batch": 2, "seq_len": 32}
    line |= {"block_seconds": 0.5, "invalid_blocks": 0, "config_hash": "c", "environment_hash": "e"}
    aa = {"slowed_by": 0.0, "truth": 1.0, "ratio": 1.0, "low": 0.99, "high": 1.01}
    lines = [line | aa | {"verdict": word} | changes for word, count in same.items() for _ in range(count)]
    for share, hits, count, kind in ((0.05, five, 10, "quick"), (0.02, two, 5, "thorough")):
        truth = {"slowed_by": share, "truth": 1 / (1 + share), "preset": kind}
        slow = {"ratio": truth["truth"], "low": 0.9, "high": 0.99}
        lines += [
            line | truth | slow | {"verdict": "slower" if number < hits else "inconclusive"}
            for number in range(count)
        ]
    return pd.DataFrame(lines)


@pytest.mark.parametrize(
    ("table", "passes"),
    [
        (a_table({"same": 36, "slower": 2, "faster": 2}), True),
        (a_table({"same": 35, "slower": 3, "faster": 2}), False),
        (a_table({"same": 39}), False),
        (a_table({"same": 40}, five=8, two=4), True),
        (a_table({"same": 40}, five=7), False),
        (a_table({"same": 40}, two=3), False),
        (a_table({"same": 40}, low=1.021, high=1.03), False),
        (a_table({"same": 40}, low=0.9, high=0.979), False),
    ],
)
def test_the_self_test_passes_only_when_complete_and_right(table: pd.DataFrame, passes: bool) -> None:
    assert passed(table, [0.05, 0.02]) is passes


def test_a_self_test_that_is_not_complete_is_no_mistake_of_the_harness() -> None:
    for right, made, words in (
        (True, 45, "the harness is right as often as it must be."),
        (False, 45, "the harness is right less often than it must be."),
        (False, 3, "The self-test is not complete: 3 of 45 comparisons are made."),
    ):
        assert describe_outcome(right=right, made=made, wanted=45).endswith(words)


def test_the_lines_count_alarms_hits_and_covered_truths() -> None:
    first, five, two = summary_lines(a_table({"same": 39, "faster": 1}, five=9))
    assert first.startswith("A/A: 1 of 40 comparisons say faster or slower")
    assert "the truth lies in 40 of 40 intervals" in first
    assert five.startswith("A/B: slowed by 2%, thorough: 5 of 5 comparisons say slower")
    assert two.startswith("A/B: slowed by 5%, quick: 9 of 10 comparisons say slower")


def test_forty_quick_comparisons_answer_a_a_and_fifteen_a_b() -> None:
    quick = [case for case in selftest.CASES["interleaved"] if "pytorch_again" in case.slowed_by]
    assert sum(case.comparisons for case in quick) == 40
    assert {case.preset for case in quick} == {"quick"}
    slowed = {
        (case.preset, share): case.comparisons
        for case in selftest.CASES["interleaved"]
        for share in case.slowed_by.values()
        if share
    }
    assert slowed == {("quick", 0.05): 10, ("thorough", 0.02): 5}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The self-test with comparisons that take no time; after every 19 it is interrupted."""
    stems: list[str] = []

    def measure_rows(config: object, stem: str, *_: object) -> pd.DataFrame:
        stems.append(stem)
        if len(stems) % 20 == 0:
            stems.append(f"{stems.pop()} interrupted")
            raise KeyboardInterrupt
        return rows([[2.0, 2.0]] * 2)

    monkeypatch.setattr(selftest, "_measure_rows", measure_rows)
    monkeypatch.setattr("bench.studies.selfcheck.selftest.collect_environment", lambda config: {})
    monkeypatch.setattr(environment, "hash_environment", lambda found: HERE)  # as in the factory's rows
    monkeypatch.setattr(identity, "config_hash", lambda config: "c0ffee")
    monkeypatch.setattr(Terminated, "catch", lambda: None)  # not for the process of the tests
    return stems


def interrupted(folder: Path) -> None:
    assert selftest.main([f"results_dir={folder}"]) == 130


@pytest.mark.slow
def test_the_self_test_goes_on_where_it_was(tmp_path: Path, made: list[str]) -> None:
    for _ in range(2):
        interrupted(tmp_path)
    assert selftest.main([f"results_dir={tmp_path}"]) == 1, "these rows never say slower"
    finished = [stem for stem in made if "interrupted" not in stem]
    assert len(finished) == len(set(finished)) == 45
    assert len(pd.read_csv(tmp_path / "interleaved.verdicts.csv")) == 45


@pytest.mark.slow
@pytest.mark.parametrize(("module", "hashed"), [(environment, "hash_environment"), (identity, "config_hash")])
def test_it_starts_anew_under_another_harness_or_with_other_comparisons(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, module: ModuleType, hashed: str
) -> None:
    interrupted(tmp_path)
    monkeypatch.setattr(module, hashed, lambda _: "changed")
    interrupted(tmp_path)
    assert made[20] == made[0]


def test_a_hash_that_looks_like_a_number_is_read_as_text(tmp_path: Path) -> None:
    """As a number it ends pandas in a segmentation fault."""
    a_table({"same": 2}).assign(config_hash="8e97791590479355").to_csv(tmp_path / "a.csv", index=False)
    paths = dict.fromkeys(selftest.TABLES, tmp_path / "a.csv")
    verdicts, _ = selftest._read_earlier(paths, {"same": ["device=cpu"]})
    assert len(verdicts) == 0, "they are of another configuration"


@pytest.mark.slow
def test_a_comparison_without_a_speed_up_is_made_again(tmp_path: Path, made: list[str]) -> None:
    interrupted(tmp_path)
    path = tmp_path / "interleaved.verdicts.csv"
    table = pd.read_csv(path)
    table.loc[3, ["ratio", "low", "high", "verdict"]] = [None, None, None, "invalid"]
    table.to_csv(path, index=False)
    interrupted(tmp_path)
    assert made[20] == made[3]


@pytest.mark.usefixtures("made")
def test_a_comparison_that_was_interrupted_goes_on_only_where_launches_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = compose(selftest._overrides_of(selftest.CASES["sequential"][1], ["measure.schedule=sequential"]))
    assert config.measure.launches == 80
    path = tmp_path / "same-1.csv"
    assert not selftest._is_interrupted(path, config), "there is none"
    rows([[2.0, 2.0]] * 79).to_csv(path, index=False)
    assert selftest._is_interrupted(path, config)
    monkeypatch.setattr(environment, "hash_environment", lambda _: "another machine")
    assert not selftest._is_interrupted(path, config)
    monkeypatch.setattr(environment, "hash_environment", lambda _: HERE)
    rows([[2.0, 2.0]] * 80).to_csv(path, index=False)
    assert not selftest._is_interrupted(path, config), "all is there, and whoever asks wants it anew"


@pytest.mark.usefixtures("made")
def test_groups_that_run_one_after_the_other_are_measured_as_one_and_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[tuple[str, int]] = []

    def measure_rows(line: Sequence[str], stem: str, *_: object) -> pd.DataFrame:
        launches = compose(line).measure.launches
        measured.append((stem, launches))
        return rows([[2.0, 2.0]] * launches)

    monkeypatch.setattr(selftest, "_measure_rows", measure_rows)
    for _ in range(2):  # the second call finds everything made
        assert selftest.main([f"results_dir={tmp_path}", "measure.schedule=sequential"]) == 1, (
            "none says slower"
        )
    assert measured == [("both-1", 80), ("same-1", 80), ("same-11", 80), ("same-21", 80)]
    table = pd.read_csv(tmp_path / "sequential.verdicts.csv")
    assert len(table) == 40
    assert set(table["launches"]) == {8}
    assert not (tmp_path / "interleaved.verdicts.csv").exists()


def test_the_cost_is_the_harness_s_time_over_the_bare_loop_s() -> None:
    seconds = pd.DataFrame(
        [(1, 1, 2.02, 2.0), (1, 2, 4.04, 4.0), (2, 1, 1.01, 1.0)],
        columns=["launch", "round", "harness", "bare"],
    )
    found = overhead.cost_of_harness(seconds)
    assert str(found) == "1.010× [1.010, 1.010]"


@pytest.mark.parametrize(("harness", "status"), [(1.0, 0), (1.019, 0), (1.021, 1), (0.979, 1)])
def test_a_cost_outside_two_per_cent_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], harness: float, status: int
) -> None:
    seconds = pd.DataFrame({"launch": [1, 2], "round": [1, 1], "steps": [3, 3], "harness": [harness] * 2})
    monkeypatch.setattr(overhead, "_measure_blocks", lambda *_: seconds.assign(bare=1.0))
    assert overhead.main(["device=cpu", "device.world_size=1"]) == status
    assert re.match(r"ratio \d\.\d{3}× \[", capsys.readouterr().out.splitlines()[-1])


def test_the_bare_loop_imports_nothing_of_the_harness() -> None:
    text = bare_loop_ranks.SCRIPT.read_text()
    assert not re.search(r"^\s*(from|import) bench", text, re.MULTILINE)
    assert len(text.splitlines()) < 60


def test_the_bare_loop_takes_the_default_workload() -> None:
    batches = bare_loop_ranks._batches_of(compose(["device=cpu"]), rank=0)
    assert batches["labels"].shape == batches["input_ids"].shape[:2]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("grad_accum=2", "grad_accum=2 asks for; set grad_accum=1"),
        ("precision=bf16", "precision=bf16 asks for; set precision=fp32"),
        ("model.trained=head", "model.trained=head asks for; set model.trained=all"),
        ("model.module=docs/examples/own_convnet.py:ConvNet", "own_convnet.py:ConvNet asks for"),
        ("model.pretrained=conf/sweeps/architectures/bert", "set model.pretrained=null"),
        ("backend=[pytorch,pytorch_fused]", "leave backend=… and backends.… out"),
        ("backends.pytorch.optimizer=adamw_fused", "leave backend=… and backends.… out"),
    ],
)
def test_overhead_refuses_what_the_bare_loop_would_not_do(override: str, sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        overhead._compose(["device=cpu", "device.world_size=1", override])
    assert sentence in str(refused.value)
