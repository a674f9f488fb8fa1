"""Recorded results (tests/golden/results, tests/golden/base) and what has to be made of them, to the letter.

    python -m tests.unit.test_golden     writes tests/golden/expected anew, for the eyes of a reviewer

The statistics are recomputed here by other means: pandas' own groups and scipy's own functions.
"""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import yaml  # type: ignore[import-untyped]
from rich.console import Console
from scipy import stats as scipy_stats

from bench.compare.changes import TOLERANCES, compare
from bench.compare.differences import named_differences
from bench.compare.tables import render_terminal
from bench.report.build import render_all, render_report
from bench.report.content.collection import ReportedComparison
from bench.report.files import files_of
from bench.results import csv_files
from bench.results.columns import HASHES
from bench.study import find_studies, load_part
from tests.support.git import COMMITTED

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
OF_MACHINES = [path for path in sorted(COMMITTED.glob("results/*/bench/*.csv")) if "." not in path.stem]
FILES = [*files_of(GOLDEN / "results"), *OF_MACHINES]


def made(folder: Path) -> Iterator[tuple[str, str]]:
    """Every text that is kept: its name and its content, without what studies add."""
    with patch("bench.study.find_studies", return_value={}):
        rendered = render_report(GOLDEN / "results", folder)
    assert not rendered.refused
    yield from (
        (path.name, path.read_text(encoding="utf-8")) for path in rendered.written if path.suffix == ".md"
    )
    base, new = (csv_files.read(GOLDEN / side / "bert-tiny-cpux2.csv") for side in ("base", "results"))
    changes = compare(base, new, yaml.safe_load(TOLERANCES.read_text()))
    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        console.print(render_terminal("bert-tiny-cpux2", changes, named_differences(base, new)))
    yield "compare.txt", captured.get()


def test_the_texts_are_what_they_were(tmp_path: Path) -> None:
    expected = {path.name: path.read_text(encoding="utf-8") for path in (GOLDEN / "expected").iterdir()}
    assert dict(made(tmp_path)) == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_ratios_intervals_and_verdicts_recomputed_from_the_file(path: Path) -> None:
    rows = pd.read_csv(path, dtype=HASHES)
    ok = rows[rows["status"] == "ok"]
    recomputed = ok["steps"] * ok["micro_batch"] * ok["grad_accum"] * ok["world_size"] / ok["seconds"]
    logs = np.log(recomputed).groupby([ok["backend"], ok["launch"], ok["round"]]).mean().unstack("backend")
    reference = rows["reference"].iloc[0]
    for one in ReportedComparison(stem=path.stem, rows=csv_files.read(path)).others:
        if one.speedup is None:
            continue
        ratios = (logs[one.backend] - logs[reference]).dropna()
        middles = ratios.groupby("launch").apply(interquartile_mean)
        assert one.speedup.ratio == pytest.approx(np.exp(middles.mean()), rel=1e-9)
        if len(middles) < 2:
            continue
        confidence = 0.98 if rows["target_half_width"].notna().any() else 0.95
        low, high = np.exp(
            scipy_stats.t.interval(confidence, len(middles) - 1, middles.mean(), scipy_stats.sem(middles))
        )
        assert (one.speedup.low, one.speedup.high) == pytest.approx((low, high), rel=1e-9)
        if low >= 0.98 and high <= 1.02:
            assert one.verdict == "same"
        else:
            assert one.verdict == ("faster" if low > 1 else "slower" if high < 1 else "inconclusive")


def interquartile_mean(values: pd.Series) -> float:
    """By repeating each value four times, so that a quarter is always a whole number of values."""
    fourfold = np.sort(np.repeat(values.to_numpy(), 4))
    return float(fourfold[len(values) : -len(values)].mean())


@pytest.mark.slow
def test_what_is_committed_in_reports_is_what_make_report_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts to the letter; of figures only which there are, since fonts may differ."""
    monkeypatch.chdir(COMMITTED)
    rendered = render_all(Path("results"), tmp_path / "reports", tmp_path / "rendered")
    assert not rendered.refused
    built, there = (files_in(folder) for folder in (tmp_path / "reports", COMMITTED / "reports"))
    own = {name for name in find_studies() if not load_part(name, "pages")}  # what their commands write
    there = {name: text for name, text in there.items() if name.stem not in own}
    remedy = "run `make report`, and `git add` the results that it shows"
    assert built.keys() == there.keys(), remedy
    texts = [name for name in built if name.suffix != ".svg"]
    assert [name for name in texts if built[name] != there[name]] == [], remedy
    assert sum(map(len, there.values())) < 4e6
    pages = list((tmp_path / "rendered").glob("*/index.html"))
    assert {page.parent.name for page in pages} == {name.parts[0] for name in there if len(name.parts) > 1}
    assert max(page.stat().st_size for page in pages) < 2e6


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


if __name__ == "__main__":
    import tempfile

    (GOLDEN / "expected").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in made(Path(folder)):
            (GOLDEN / "expected" / name).write_text(content, encoding="utf-8")
            print(GOLDEN / "expected" / name)
