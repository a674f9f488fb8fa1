"""The command that makes a report, and the pages over all comparisons."""

from pathlib import Path

import pytest

from bench.report import __main__ as command
from bench.report.render import render_comparisons
from tests.support.reports import golden_records, save


def test_every_results_file_is_rendered_and_a_damaged_one_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, golden_records(), "a")
    save(tmp_path, golden_records(), "c")
    (tmp_path / "results" / "b.csv").write_text("half")
    out = tmp_path / "reports"
    assert command.main([str(tmp_path / "results"), "--out", str(out)]) == 2
    assert {path.name for path in out.iterdir()} >= {"a.md", "c.md", "index.html"}
    assert "b.csv is damaged" in (out / "index.html").read_text(encoding="utf-8")
    error = capsys.readouterr().err
    assert "b.csv is damaged" in error
    assert error.count("\n") == 1


def test_a_folder_without_results_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "holds no results file" in capsys.readouterr().err


def test_comparisons_of_the_same_workload_are_told_apart_and_others_need_no_name(tmp_path: Path) -> None:
    def tables(folder: Path) -> tuple[str, str]:
        render_comparisons(folder / "results", folder / "reports")
        names = ("index.md", "index.html")
        index, page = ((folder / "reports" / name).read_text(encoding="utf-8") for name in names)
        return index, page

    for stem in ("bert-tiny-cpux2", "bert-tiny-cpux2-experiment=stacks"):
        save(tmp_path / "twice", golden_records(), stem)
    index, page = tables(tmp_path / "twice")
    assert "| model | workload | comparison | backend |" in index
    title = "BERT-Tiny, 2 ranks, 2 × accumulated, as installed, file bert-tiny-cpux2"
    assert index.count(f"| {title}-experiment=stacks | ") == index.count(f"| {title} | ") > 1
    assert f'<td class="comparison">{title}-experiment=stacks</td>' in page

    save(tmp_path / "once", golden_records(), "bert-tiny-cpux2")
    index, page = tables(tmp_path / "once")
    assert "| model | workload | backend |" in index
    assert 'class="comparison"' not in page


def test_the_index_leads_to_the_pages_about_what_is_no_comparison(tmp_path: Path) -> None:
    save(tmp_path, golden_records(), "a")
    page = tmp_path / "reports" / "index.md"
    for folder, link in (("matrix", "support.md"), ("selftest", "selftest.md")):
        render_comparisons(tmp_path / "results", tmp_path / "reports")
        assert link not in page.read_text(encoding="utf-8")
        (tmp_path / "results" / folder).mkdir()
        (tmp_path / "results" / folder / "verdicts.csv").touch()
        render_comparisons(tmp_path / "results", tmp_path / "reports")
        assert f"]({link})" in page.read_text(encoding="utf-8")
