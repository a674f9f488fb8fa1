"""What studies make of many comparisons: pages, figures beside a machine's answer, commands."""

import argparse
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.report import __main__ as command
from bench.report import build
from bench.report.content import study_commands
from bench.report.content.blocks import Picture
from bench.report.content.collection import ReportedComparison
from bench.report.content.pictures import Planned, ReportFigure
from bench.report.content.study_commands import StudyCommand, suggest_figure
from bench.report.content.study_pages import ByMachine, StudyPage, WrittenPage
from bench.results.atomic import write_atomically
from tests.support.factories import comparison
from tests.support.reports import golden_records, make_machine
from tests.support.result_files import write_records


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[StudyPage]:
    """The pages that there are: those of a test."""
    pages: list[StudyPage] = []

    def find(over_machines: bool) -> list[StudyPage]:
        return [one for one in pages if one.over_machines is over_machines]

    monkeypatch.setattr(build, "find_pages", find)
    return pages


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two machines that each have a folder of results for studies alone; a file of one is damaged."""
    for name in ("one", "two"):
        folder = make_machine(tmp_path / "results" / name, f"machine {name}")
        write_records(folder / "bench" / "a.csv", golden_records())
        write_records(folder / "extra" / "b.csv", comparison({"pytorch": [[2.0]]}))
    (folder / "extra" / "half.csv").write_text("half")
    return tmp_path / "results"


def words(by_machine: ByMachine) -> str:
    return "; ".join(f"{name}: {[one.stem for one in several]}" for name, several in by_machine.items())


def write(by_machine: ByMachine, out_dir: Path) -> WrittenPage:
    write_atomically(out_dir / "extra.md", words(by_machine))
    return WrittenPage(files=[out_dir / "extra.md"], pictures=[Picture(out_dir / "extra.svg", "a picture")])


def test_a_page_beside_each_machines_is_of_its_folder_and_linked_there(
    pages: list[StudyPage], results: Path, tmp_path: Path
) -> None:
    pages.append(StudyPage(about="more of it", folders=["extra"], write=write))
    rendered = build.render_all(results, tmp_path / "reports", tmp_path / "rendered")
    for name in ("one", "two"):
        page = tmp_path / "reports" / name
        assert (page / "extra.md").read_text() == ": ['b']"
        assert "[more of it](extra.md)" in (page / "index.md").read_text()
    assert "extra.md" not in (tmp_path / "reports" / "index.md").read_text()
    assert [sentence for sentence in rendered.refused if "half.csv is damaged" in sentence] == [
        *rendered.refused
    ]


def test_a_page_over_machines_has_their_comparisons_by_name_and_its_picture_stands_on_the_index(
    pages: list[StudyPage], results: Path, tmp_path: Path
) -> None:
    pages.append(StudyPage(about="all of it", folders=["bench", "extra"], over_machines=True, write=write))
    rendered = build.render_all(results, tmp_path / "reports", tmp_path / "rendered")
    page = (tmp_path / "reports" / "extra.md").read_text()
    assert page == "machine one: ['a', 'b']; machine two: ['a', 'b']"
    index = (tmp_path / "reports" / "index.md").read_text()
    assert index.index("](extra.svg)") < index.index("[all of it](extra.md)")
    assert len(rendered.refused) == 1
    assert "file b" not in (tmp_path / "reports" / "one" / "index.md").read_text(), "it is of the study alone"


def test_without_comparisons_there_is_no_page_and_no_link(
    pages: list[StudyPage], results: Path, tmp_path: Path
) -> None:
    pages.append(StudyPage(about="more of it", folders=["nothing"], write=write))
    build.render_report(results / "one", tmp_path / "reports")
    assert not (tmp_path / "reports" / "extra.md").exists()
    assert "more of it" not in (tmp_path / "reports" / "index.md").read_text()


def test_a_figure_stands_beside_the_answer_that_it_belongs_to(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(families: list[list[ReportedComparison]], folder: Path) -> list[Planned]:
        (one,) = families[1]
        beside = ReportFigure(path=folder / "beside.svg", title="beside it", beside_answer_of={one.anchor})
        below = ReportFigure(path=folder / "below.svg", title="below it")
        return [(figure, partial(write_atomically, figure.path, "<svg></svg>")) for figure in (beside, below)]

    monkeypatch.setattr(build, "load_parts", lambda part: {"extra": SimpleNamespace(planned_figures=plan)})
    monkeypatch.setattr(build, "find_pages", lambda over_machines: [])
    build.render_report(results / "one", tmp_path / "reports")
    page = (tmp_path / "reports" / "index.md").read_text()
    order = ("](beside.svg)", "A row is one comparison", "](speedup.svg)", "](below.svg)")
    places = [page.index(words) for words in order]
    assert places == sorted(places)


def test_a_command_is_listed_run_and_suggested_where_it_draws(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def parser() -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser()
        parser.add_argument("status", type=int)
        return parser

    drawing = StudyCommand(about="draws", parser=parser, run=lambda options: int(options.status))
    part = SimpleNamespace(COMMANDS={"figure": drawing})
    monkeypatch.setattr(study_commands, "load_parts", lambda part_name: {"extra": part})
    assert command.main(["figure", "3"]) == 3
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "python -m bench.report figure --help: draws" in capsys.readouterr().out
    assert suggest_figure(Path("a.csv")).endswith("-m bench.report figure a.csv --out speedup.pdf")
    monkeypatch.setattr(study_commands, "load_parts", lambda part_name: {})
    assert suggest_figure(Path("a.csv")) == ""
