"""The self-test's tables and its exit status, from rows with known figures; the overhead check for real."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from factories import comparison

from bench import results, stats
from bench.report import checks
from bench.selfcheck import overhead, selftest

ROOT = Path(__file__).resolve().parents[1]


def rows(seconds: list[list[float]], slowed_by: float = 0.0) -> pd.DataFrame:
    records = comparison({"pytorch": [[2.0] * len(launch) for launch in seconds]})
    records += comparison({"pytorch_again": seconds}, slowed_by=slowed_by)
    return results.frame(records)


def test_a_comparison_leaves_a_verdict_beside_the_truth() -> None:
    (line,) = checks.verdicts(rows([[2.1, 2.1]] * 3, 0.05), "both", 4, "quick").to_dict("records")
    expected = {"case": "both", "number": 4, "preset": "quick", "backend": "pytorch_again", "slowed_by": 0.05}
    assert {key: line[key] for key in expected} == expected
    assert line["truth"] == pytest.approx(1 / 1.05)
    assert line["ratio"] == pytest.approx(2.0 / 2.1)
    assert (line["verdict"], line["launches"], line["rounds"]) == ("slower", 3, 6)


def test_the_noise_of_a_round_is_its_log_ratio_less_the_truth() -> None:
    table = checks.rounds(rows([[2.1, 2.1], [2.1, 2.2]], 0.05), "both", 1)
    assert list(zip(table["launch"], table["round"], strict=True)) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert list(table["noise"][:3]) == pytest.approx([0.0, 0.0, 0.0])
    assert table["noise"].iloc[3] == pytest.approx(-0.0465, abs=1e-4)


def a_table(same: dict[str, int], five: int = 10, two: int = 5, **changes: Any) -> pd.DataFrame:
    """So many A/A verdicts of each kind, and so many A/B that say slower, of 10 and of 5."""
    line = {"case": "c", "number": 1, "preset": "quick", "backend": "b", "margin": 0.02, "model": "m"}
    line |= {"started_at": "2026-11-21T10:00:00", "git_commit": "abc", "device": "cpu"}
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
    assert checks.passed(table) is passes


def test_the_lines_count_alarms_hits_and_covered_truths() -> None:
    first, five, two = checks.lines(a_table({"same": 39, "faster": 1}, five=9))
    assert first.startswith("A/A: 1 of 40 comparisons say faster or slower")
    assert "the truth lies in 40 of 40 intervals" in first
    assert five.startswith("A/B: slowed by 2%, thorough: 5 of 5 comparisons say slower")
    assert two.startswith("A/B: slowed by 5%, quick: 9 of 10 comparisons say slower")


def test_the_page_shows_every_comparison_and_the_coverage(tmp_path: Path) -> None:
    a_table({"same": 40}).to_csv(tmp_path / "verdicts.csv")
    pd.DataFrame(
        [
            {
                "noise": "white",
                "preset": "quick",
                "launches": 4,
                "rounds": 4,
                "until": None,
                "coverage": 0.951,
                "half_width": 0.0321,
                "mean_launches": 4.0,
            }
        ]
    ).to_csv(tmp_path / "coverage.csv")
    page = checks.markdown(tmp_path)
    assert page.count("| c 1 |") == 55
    assert "| white | quick | 4 × 4 | – | 95.1% | ± 3.21% | 4.0 |" in page


def test_forty_quick_comparisons_answer_a_a_and_fifteen_a_b() -> None:
    quick = [case for case in selftest.CASES if "pytorch_again" in case.slowed_by]
    assert sum(case.comparisons for case in quick) == 40
    assert {case.preset for case in quick} == {"quick"}
    slowed = {
        (case.preset, share): case.comparisons
        for case in selftest.CASES
        for share in case.slowed_by.values()
        if share
    }
    assert slowed == {("quick", 0.05): 10, ("thorough", 0.02): 5}


def test_the_self_test_goes_on_where_it_was_unless_the_harness_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, int]] = []

    def compared(case: selftest.Case, number: int, *_: object) -> pd.DataFrame:
        if len(made) % 20 == 19:
            made.append(("interrupted", 0))
            raise KeyboardInterrupt
        made.append((case.name, number))
        return rows([[2.0, 2.0]] * 2)

    monkeypatch.setattr(selftest, "_compared", compared)
    monkeypatch.setattr(selftest.environment, "collect", lambda config: "here")
    monkeypatch.setattr(selftest.environment, "digest", lambda found: "5eed")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            selftest.main(["--results", str(tmp_path)])
    assert selftest.main(["--results", str(tmp_path)]) == 1, "these rows never say slower"
    real = [one for one in made if one[0] != "interrupted"]
    assert len(real) == len(set(real)) == 45
    verdicts = pd.read_csv(tmp_path / "selftest" / "verdicts.csv")
    assert len(verdicts) == 45

    monkeypatch.setattr(selftest.environment, "digest", lambda found: "changed")
    made.clear()
    with pytest.raises(KeyboardInterrupt):
        selftest.main(["--results", str(tmp_path)])
    assert made[0] == real[0]


def test_the_cost_is_the_harness_s_time_over_the_bare_loop_s() -> None:
    seconds = pd.DataFrame(
        [(1, 1, 2.02, 2.0), (1, 2, 4.04, 4.0), (2, 1, 1.01, 1.0)],
        columns=["launch", "round", "harness", "bare"],
    )
    found = overhead.cost(seconds)
    assert overhead.line(found) == "ratio 1.010 [1.010, 1.010]"
    assert overhead.line(overhead.cost(seconds[:1])) == "ratio 1.010"


@pytest.mark.parametrize(("harness", "status"), [(1.0, 0), (1.019, 0), (1.021, 1), (0.979, 1)])
def test_a_cost_outside_two_per_cent_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], harness: float, status: int
) -> None:
    seconds = pd.DataFrame({"launch": [1, 2], "round": [1, 1], "steps": [3, 3], "harness": [harness] * 2})
    monkeypatch.setattr(overhead, "_measured", lambda *_: seconds.assign(bare=1.0))
    assert overhead.main(["device=cpu", "device.world_size=1"]) == status
    assert re.match(r"ratio \d\.\d{3} \[", capsys.readouterr().out.splitlines()[-1])


def test_the_bare_loop_imports_nothing_of_the_harness() -> None:
    text = overhead.LOOP.read_text()
    assert not re.search(r"^\s*(from|import) bench", text, re.MULTILINE)
    assert len(text.splitlines()) < 60


@pytest.mark.timeout(300)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores of their own")
def test_the_overhead_is_really_measured(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench.selfcheck.overhead", f"--out={tmp_path}/blocks.csv"),
            *(f"hydra.searchpath=[file://{ROOT}/tests/conf]", "model=bert-mini", "device=cpu"),
            *("measure.launches=2", "measure.rounds=2", "measure.block_seconds=0.3"),
            f"results_dir={tmp_path}/results",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr  # how much it costs is no matter for a busy machine
    last = done.stdout.splitlines()[-1]
    ratio = float(re.match(r"ratio (\d\.\d{3}) \[\d\.\d{3}, \d\.\d{3}\]$", last)[1])  # type: ignore[index]
    blocks = pd.read_csv(tmp_path / "blocks.csv")
    assert list(zip(blocks["launch"], blocks["round"], strict=True)) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert 0.5 < ratio < 2
    assert stats.mean(list(blocks["bare"])) == pytest.approx(0.3, rel=0.7)
