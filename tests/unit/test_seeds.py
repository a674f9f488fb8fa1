"""Comparisons that differ in their seed alone, as one row on the page and one pair in `make compare`."""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.seeds import combine_seeds, group_by_seed
from bench.compare.__main__ import main as compare
from bench.report.__main__ import main as report
from bench.report.build import render_report
from bench.results.records import Record
from tests.support.factories import comparison, failed
from tests.support.result_files import table_of_records, write_records

TRUE = {1: 1.20, 2: 1.30, 3: 1.26}
"""The speed-up of each seed."""


def records(number: int, *, torch: float = 2.0, launches: int = 2, **changes: Any) -> list[Record]:
    """Two backends, whose launches of one seed nearly agree while seeds differ."""
    noise = np.random.default_rng(number).normal(0, 0.001, (2, launches, 4))
    seconds = {
        name: (base * np.exp(one)).tolist()
        for (name, base), one in zip(
            {"pytorch": torch, "ortmodule": torch / TRUE[number]}.items(), noise, strict=True
        )
    }
    overrides = ("model=bert-tiny", f"seed={number}")
    command = f'make bench ARGS="{" ".join(overrides)}"'
    return comparison(seconds, **{"seed": number, "overrides": overrides, "command": command} | changes)


def results(seed: int, **changes: Any) -> ComparisonResults:
    return ComparisonResults(stem=f"seed-{seed}", rows=table_of_records(records(seed, **changes)))


def combined(*several: ComparisonResults) -> ComparisonResults:
    return ComparisonResults(stem="all", rows=combine_seeds([one.rows for one in several]))


def test_the_speed_up_is_the_geometric_mean_over_seeds_and_its_interval_student_s_over_them() -> None:
    speedup = combined(*map(results, TRUE)).others[0].speedup
    assert speedup is not None
    assert speedup.low is not None
    assert speedup.high is not None
    logs = np.log(list(TRUE.values()))
    assert speedup.ratio == pytest.approx(math.exp(logs.mean()), rel=1e-3)
    half = 4.3027 * logs.std(ddof=1) / math.sqrt(3)  # Student's 97.5 % quantile of 2 degrees of freedom
    assert math.log(speedup.high / speedup.ratio) == pytest.approx(half, rel=0.05)
    assert (speedup.launches, speedup.rounds) == (3, 24)
    assert speedup.low < min(TRUE.values()) < max(TRUE.values()) < speedup.high


def test_more_launches_of_the_same_seeds_make_no_narrower_interval() -> None:
    few, many = (
        combined(*(results(seed, launches=launches) for seed in TRUE)).others[0].speedup
        for launches in (2, 20)
    )
    assert few is not None
    assert many is not None
    widths = [math.log((one.high or 0) / (one.low or 1)) for one in (few, many)]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


def test_the_rows_of_each_seed_stay_as_they_are() -> None:
    one, other = results(1), results(2)
    before = one.rows.copy()
    table = combine_seeds([one.rows, other.rows])
    pd.testing.assert_frame_equal(one.rows, before)
    assert list(table.dtypes) == list(one.rows.dtypes)
    assert len(table) == len(one.rows) + len(other.rows)
    assert not table.duplicated(["backend", "launch", "round", "attempt"]).any()


def test_only_what_differs_in_its_seed_alone_belongs_together() -> None:
    alone = [
        results(3, git_commit="0" * 40),
        results(3, study="reproduce"),
        results(3, overrides=("model=bert-tiny", "seed=3", "adam.lr=1e-3")),
        ComparisonResults(stem="untimed", rows=table_of_records([failed("pytorch", "oom", "no", seed=3)])),
    ]
    default = ComparisonResults(
        stem="default", rows=table_of_records(records(3, seed=0, overrides=("model=bert-tiny",)))
    )
    twice = results(2)
    groups = group_by_seed([results(2), *alone, results(1), default, twice])
    sizes = sorted(len(group) for group in groups)
    assert sizes == [1, 1, 1, 1, 1, 3]
    (together,) = [group for group in groups if len(group) == 3]
    assert [one.rows["seed"].iloc[0] for one in together] == [0, 1, 2]


def test_a_backend_that_fails_with_one_seed_has_no_speed_up_and_says_with_which() -> None:
    broken = [one for one in records(2) if one.backend == "pytorch"]
    broken.append(failed("ortmodule", "oom", "out of memory", seed=2))
    table = combine_seeds([results(1).rows, table_of_records(broken), results(3).rows])
    (other,) = ComparisonResults(stem="x", rows=table).others
    assert (other.status, other.message, other.speedup) == ("oom", "with seed 2 out of memory", None)


def save(folder: Path, **changes: Any) -> Path:
    for seed in TRUE:
        write_records(folder / f"bert-tiny-cpux2-seed-{seed}.csv", records(seed, **changes))
    return folder


def test_the_page_has_one_row_and_folds_the_seeds(tmp_path: Path) -> None:
    render_report(save(tmp_path / "results"), tmp_path / "page")
    page = (tmp_path / "page" / "index.md").read_text(encoding="utf-8")
    assert "All 1 comparison" in page
    assert page.count("3 seeds: 1, 2, 3. Speed-up: of each seed the midmean") == 1
    assert 'made by: make sweep ARGS="model=bert-tiny seed=1,2,3"' in page
    for seed in TRUE:
        assert page.count(f'<a id="bert-tiny-cpux2-seed-{seed}"></a>') == 1
        assert f"results file: bench/bert-tiny-cpux2-seed-{seed}.csv" in page
    summary = pd.read_csv(tmp_path / "page" / "summary.csv")
    assert list(summary["backend"]) == ["pytorch", "ortmodule"]
    assert summary["file"].str.count(";").tolist() == [2, 2]


def test_one_seed_alone_is_shown_as_before(tmp_path: Path) -> None:
    write_records(tmp_path / "results" / "a.csv", records(1))
    render_report(tmp_path / "results", tmp_path / "page")
    page = (tmp_path / "page" / "index.md").read_text(encoding="utf-8")
    assert "seeds" not in page.split("How the numbers are defined")[0]
    assert "seed=1" in page


def test_compare_compares_all_seeds_with_all_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one launch each, so that no seed could be compared by itself."""
    base, new = save(tmp_path / "base", launches=1), save(tmp_path / "new", launches=1, torch=2.4)
    assert compare([str(base), str(new)]) == 1
    printed = capsys.readouterr()
    assert "bert-tiny-cpux2-seed-1 and 2 more of its seeds" in printed.out
    assert "bert-tiny-cpux2-seed-2" not in printed.out
    assert printed.err == ""


def test_compare_takes_seeds_apart_where_they_cannot_be_compared_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, new = save(tmp_path / "base"), save(tmp_path / "new", torch=2.0002)
    write_records(new / "bert-tiny-cpux2-seed-3.csv", records(3, threads_per_rank=2))
    assert compare([str(base), str(new)]) == 2
    printed = capsys.readouterr()
    assert "and 1 more of its seeds" not in printed.out, "base has three together, and new two"
    assert "bert-tiny-cpux2-seed-1" in printed.out
    assert "bert-tiny-cpux2-seed-3: these files cannot be compared, since threads_per_rank" in printed.err


@pytest.mark.parametrize("command", [["table", "--csv"], ["figure", "--out", "figure.svg"]])
def test_a_table_and_a_figure_show_all_seeds_as_one(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert report([command[0], str(save(tmp_path / "results")), *command[1:]]) == 0
    printed = capsys.readouterr()
    if command[0] == "table":
        rows = pd.read_csv(io.StringIO(printed.out))
        assert list(rows["backend"]) == ["pytorch", "ortmodule"]
        assert rows["file"].str.count(";").tolist() == [2, 2]
    else:
        assert printed.err == ""
        assert "; 3 launches." in printed.out


def test_the_seeds_of_a_new_machine_are_beside_those_of_another_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("base", "new"):
        save(tmp_path / folder / "here" / "bench")
    save(tmp_path / "new" / "there" / "bench", torch=2.4)
    compare([str(tmp_path / "base"), str(tmp_path / "new")])
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("there/bench/bert-tiny-cpux2-seed-1 and 2 more of its seeds") == 1
    assert "bert-tiny-cpux2-seed-2" not in printed


def test_a_damaged_seed_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, new = save(tmp_path / "base"), save(tmp_path / "new", torch=2.0002)
    (new / "bert-tiny-cpux2-seed-3.csv").write_text("city\nUlm\n", encoding="utf-8")
    assert compare([str(base), str(new)]) == 2
    printed = capsys.readouterr()
    assert "bert-tiny-cpux2-seed-3.csv" in printed.err
    assert "bert-tiny-cpux2-seed-1" in printed.out
