"""The command that makes a report, and the pages over all comparisons."""

import dataclasses
from pathlib import Path

import pytest

from bench.config.compose import compose
from bench.report import __main__ as command
from bench.report.build import render_report
from bench.report.files import RENDERED
from tests.support.pages import ROOT
from tests.support.reports import golden_records, make_machine, save, section_of
from tests.support.result_files import write_records


def test_every_results_file_is_rendered_and_a_damaged_one_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, golden_records(), "a")
    save(tmp_path, golden_records(), "c")
    (tmp_path / "results" / "b.csv").write_text("half")
    out = tmp_path / "reports"
    assert command.main([str(tmp_path / "results"), "--out", str(out)]) == 2
    page = (out / "index.md").read_text(encoding="utf-8")
    assert all(section_of(page, name) for name in ("a", "c"))
    assert "b.csv is damaged" in (out / "index.html").read_text(encoding="utf-8")
    error = capsys.readouterr().err
    assert "b.csv is damaged" in error
    assert error.count("\n") == 1


def test_comparisons_of_the_same_workload_are_told_apart(tmp_path: Path) -> None:
    for stem in ("bert-tiny-cpux2", "bert-tiny-cpux2-stacks"):
        save(tmp_path, golden_records(), stem)
    render_report(tmp_path / "results", tmp_path / "reports")
    page = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    title = "bert-tiny, 2 ranks, 2 × accumulated, as installed, file bert-tiny-cpux2"
    for ending in ("", "-stacks"):
        folded = f"<details><summary>{title}{ending}</summary>"
        assert f'<p><a id="bert-tiny-cpux2{ending}"></a></p>\n{folded}' in page


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with two comparisons of the same name, of different studies."""
    folder = make_machine(tmp_path / "results" / "mine")
    for study in ("bench", "reproduce"):
        records = [dataclasses.replace(one, study=study) for one in golden_records()]
        write_records(folder / study / "bert-tiny-cpux2.csv", records)
    return folder


def test_what_is_committed_is_small_and_a_machine_s_and_the_rest_is_rendered_elsewhere(
    machine: Path, tmp_path: Path
) -> None:
    out, rendered = tmp_path / "reports", tmp_path / "rendered"
    (out / "mine").mkdir(parents=True)
    (out / "mine" / "of-a-comparison-that-is-gone.svg").touch()
    arguments = [str(machine.parent), "--out", str(out), "--rendered", str(rendered)]
    assert command.main(arguments) == 0
    assert {path.name for path in out.iterdir()} >= {"index.md", "mine"}
    kept, all_files = ({path.name for path in (folder / "mine").iterdir()} for folder in (out, rendered))
    assert all_files - kept == {"index.html"}
    assert kept >= {"index.md", "summary.csv", "speedup.svg"}
    assert "of-a-comparison-that-is-gone.svg" not in kept
    page = (out / "mine" / "index.md").read_text(encoding="utf-8")
    for anchor in ("bert-tiny-cpux2", "reproduce-bert-tiny-cpux2"):
        assert "faster" in section_of(page, anchor)
    line, *_ = [one for one in (out / "index.md").read_text(encoding="utf-8").splitlines() if "mine" in one]
    assert "](mine/index.md) | **1 of 1** (" in line


def test_what_make_bench_renders_is_ignored_by_git() -> None:
    assert compose([]).reports_dir == str(RENDERED)
    assert f"{RENDERED}/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_one_more_result_changes_its_machine_s_files_and_one_line(machine: Path, tmp_path: Path) -> None:
    other = make_machine(machine.with_name("other"))
    write_records(other / "bench" / "gpt2-cpux2.csv", golden_records())
    out = tmp_path / "reports"

    def make() -> dict[str, str]:
        command.main([str(machine.parent), "--out", str(out), "--rendered", str(tmp_path / "rendered")])
        files = [path for path in out.rglob("*") if path.is_file()]
        return {str(path.relative_to(out)): path.read_text(encoding="utf-8") for path in files}

    before = make()
    write_records(other / "bench" / "bert-tiny-cpux2-seq_len-64.csv", golden_records())
    after = make()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert all(name.startswith("other/") or name in ("claims.md", "index.md") for name in changed)
    lines = [before["index.md"].splitlines(), after["index.md"].splitlines()]
    assert sum(one != another for one, another in zip(*lines, strict=True)) <= 1
