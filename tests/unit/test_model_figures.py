"""The figures over many models: legible at every width, with a text alternative, drawn by one command."""

import itertools
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from bench.report import __main__ as command
from bench.report.build import render_report
from bench.report.commands import parse_width
from bench.report.content.collection import ReportedComparison, read_comparison
from bench.report.content.quantities import MEMORY, SPEEDUP
from bench.report.figures import style
from bench.report.figures.breakdown_chart import breakdown_chart, breakdown_rows
from bench.report.figures.model_chart import model_chart
from bench.report.figures.models import describe_set, figure_sets, model_rows, planned_figures
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import Row, RowChart, RowGroup, draw_rows, ratio_limits
from bench.report.words.formatting import one_line
from bench.report.words.titles import spell_model
from bench.results import csv_files
from tests.support.factories import ENVIRONMENT, comparison, two_backends, with_environment, workload
from tests.support.many_models import ELEVEN, Model, write, write_breakdowns
from tests.support.many_models import comparison as of_model
from tests.support.reports import make_machine, svg_texts
from tests.support.result_files import table_of_records, write_records

WIDTHS = (2.5, 3.3, 5.4, 6.6, 13.3)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of eleven results files with their breakdowns."""
    folder = tmp_path_factory.mktemp("eleven")
    write(folder)
    write_breakdowns(folder, profiled={"ortmodule_zero1": 1.5})
    return folder


@pytest.fixture(scope="module")
def eleven(files: Path) -> list[ReportedComparison]:
    return [read_comparison(path) for path in csv_files.list_files(files)]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two of them."""
    folder = tmp_path_factory.mktemp("two")
    models = tuple(model for model in ELEVEN if model.name in ("gpt2", "t5-large"))
    write(folder, models)
    write_breakdowns(folder, models)
    return folder


@pytest.fixture(scope="module")
def drawn(eleven: list[ReportedComparison]) -> "Drawn":
    """Draws the eleven; what was drawn for one test serves the others."""

    @cache
    def draw_once(draw: Drawer, width: float) -> Figure:
        with rc_context(style.rc(style.LIGHT)):
            return draw(eleven, width)

    return draw_once


@pytest.fixture
def look() -> Iterator[None]:
    with rc_context(style.rc(style.LIGHT)):
        yield


def of_speed(comparisons: list[ReportedComparison], width: float) -> Figure:
    rows = model_rows(model_chart(comparisons, SPEEDUP), style.LIGHT, width)
    return draw_rows(rows, style.LIGHT, width)


def of_memory(comparisons: list[ReportedComparison], width: float) -> Figure:
    rows = model_rows(model_chart(comparisons, MEMORY), style.LIGHT, width)
    return draw_rows(rows, style.LIGHT, width)


def of_breakdown(comparisons: list[ReportedComparison], width: float) -> Figure:
    return draw_rows(breakdown_rows(breakdown_chart(comparisons), style.LIGHT), style.LIGHT, width)


Drawer = Callable[[list[ReportedComparison], float], Figure]
Drawn = Callable[[Drawer, float], Figure]


def texts_of(figure: Figure) -> list[Text]:
    """Every text that is seen, those of ticks and legends too."""
    if figure.stale:
        figure.draw_without_rendering()
        figure.stale = False
    hidden = {id(label) for axes in figure.axes[1:] for label in axes.yaxis.get_ticklabels(which="both")}
    texts = cast(list[Text], figure.findobj(Text))
    return [text for text in texts if text.get_text() and text.get_visible() and id(text) not in hidden]


def assert_legible(figure: Figure) -> None:
    """No text overlaps another one, leaves the sheet or is smaller than 6 points."""
    width, height = figure.get_size_inches()
    figure.set_dpi(300)
    renderer = RendererAgg(1, 1, 300)
    texts = texts_of(figure)
    placed = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    for words, box in placed:
        assert box.x0 >= -6, words
        assert box.x1 <= 300 * width + 6, words
        assert box.y0 >= -1, words
        assert box.y1 <= 300 * height + 1, words
    slack = 4  # dots of 300 to an inch: ascenders of a line may reach into the descenders of the one above
    for (one, first), (other, second) in itertools.combinations(placed, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert across <= slack or down <= slack, f"{one!r} overlaps {other!r}"
    assert min(float(text.get_fontsize()) for text in texts) >= 6


@pytest.mark.usefixtures("look")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("draw", [of_speed, of_memory, of_breakdown])
def test_every_text_is_legible_at_every_width(drawn: Drawn, draw: Drawer, width: float) -> None:
    assert_legible(drawn(draw, width))


@pytest.mark.usefixtures("look")
@pytest.mark.parametrize("width", [3.3, 10.0])
def test_long_names_reasons_and_several_machines_are_legible(width: float) -> None:
    long = comparison({"pytorch": [[2.0], [2.0]], "a_backend_with_a_rather_long_name": [[1.5], [1.6]]})
    other = with_environment(two_backends(), cpu=ENVIRONMENT["cpu"] | {"family": 8})
    shrunk = comparison(
        {"pytorch": [[2.0], [2.0]], "ortmodule": [[1.0], [1e120]]},
        workload=workload(model="a-model-that-has-a-very-long-name", size="mini", precision="bf16"),
    )
    tables = [table_of_records(records) for records in (long, other, shrunk)]
    comparisons = [
        ReportedComparison(stem=f"bert-tiny-cpux2-{'x' * 80}{number}", rows=rows)
        for number, rows in enumerate([*tables, tables[0]])
    ]
    assert_legible(of_speed(comparisons, width))


@pytest.mark.usefixtures("look")
@pytest.mark.parametrize("width", WIDTHS)
def test_no_status_covers_a_mark(drawn: Drawn, width: float) -> None:
    figure = drawn(of_speed, width)
    renderer = RendererAgg(1, 1, figure.dpi)
    statuses = [text for text in texts_of(figure) if text.get_fontstyle() == "italic"]
    assert len(statuses) == 6
    lines = [line for axes in figure.axes[1:] for line in axes.lines if line.get_zorder() >= 5]
    assert len(lines) > 20
    for text in statuses:
        box = text.get_window_extent(renderer)
        for mark in lines:
            across = mark.get_transform()
            (left, first), (right, last) = across.transform(np.asarray(mark.get_xydata())[[0, -1]])
            beside = max(left, right) < box.x0 or min(left, right) > box.x1
            assert beside or max(first, last) < box.y0 or min(first, last) > box.y1, text.get_text()


@pytest.mark.usefixtures("look")
def test_the_overlap_of_two_texts_would_be_seen() -> None:
    figure = of_speed([of_model(ELEVEN[0])], 3.3)
    first = texts_of(figure)[0]
    figure.axes[0].text(*first.get_position(), "on top of it", va="center_baseline")
    with pytest.raises(AssertionError, match="overlaps"):
        assert_legible(figure)


@pytest.mark.usefixtures("look")
def test_the_figure_shows_every_number_status_and_group(drawn: Drawn) -> None:
    words = [text.get_text() for text in texts_of(drawn(of_speed, 3.3))]
    for model in ELEVEN:
        assert model.name in words
    for shown in ("1.33×", "0.80×", "0.77×", "0.95×", "out of memory", "crashed", "diverged", "skipped"):
        assert shown in words
    assert words.count("unsupported") == 2
    for group in ("text encoders", "decoders", "encoder-decoders", "vision", "speech"):
        assert group in words
    for entry in ("95 % interval", "best PyTorch", "published, other hardware"):
        assert entry in words
    assert "← slower · speed-up over pytorch (×, logarithmic) · faster →" in words
    assert "1" in words


@pytest.mark.usefixtures("look")
def test_intervals_are_written_where_there_is_room(drawn: Drawn) -> None:
    words = [text.get_text() for text in texts_of(drawn(of_speed, 13.3))]
    assert "0.800× [0.792, 0.808]" in words


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_command_writes_each_format_the_same_way_each_time(
    two: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    for path in (first, second):
        assert command.main(["figure", str(two), "--out", str(path)]) == 0
    assert first.read_bytes() == second.read_bytes()
    begins = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}[ending]
    assert first.read_bytes().startswith(begins)
    printed = capsys.readouterr().out
    assert printed.startswith("Caption: Bars: samples/s over that of pytorch. Whiskers: 95 % interval")
    assert f"wrote {first}" in printed
    if ending == "pdf":
        assert b"/Type3" not in first.read_bytes()
        assert b"/CIDFontType2" in first.read_bytes()


def test_the_svg_has_a_text_alternative_the_width_and_the_theme_that_were_asked_for(
    two: Path, tmp_path: Path
) -> None:
    path = tmp_path / "x.svg"
    options = ["--width", "84mm", "--title", "A & B", "--dark", "--backends", "ortmodule"]
    options += ["--models", "t5-large"]
    assert command.main(["figure", str(two), "--out", str(path), *options]) == 0
    root = ElementTree.parse(path).getroot()
    name = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.findtext(f"{name}title") == "A & B"
    described = root.findtext(f"{name}desc") or ""
    assert "t5-large: ortmodule 1.330×" in described
    assert "ortmodule_zero1" not in re.sub(r"Caption.*", "", described)
    assert "gpt2" not in described, "it was not asked for"
    assert float((root.get("width") or "").removesuffix("pt")) == pytest.approx(84 / 25.4 * 72, abs=0.01)
    assert style.DARK.ground.lower() in path.read_text().lower()
    texts = svg_texts(path)
    assert "A & B" in texts
    assert not any(words.startswith("Bars:") for words in texts)


@pytest.mark.parametrize("of", ["memory", "breakdown"])
def test_memory_and_breakdown_are_drawn_by_the_same_command(two: Path, tmp_path: Path, of: str) -> None:
    path = tmp_path / "x.svg"
    assert command.main(["figure", str(two), "--out", str(path), "--of", of, "--title", ""]) == 0
    assert {"memory": "0.71×", "breakdown": "matrix products"}[of] in " ".join(svg_texts(path))


def test_in_a_column_of_a_paper_backends_are_named_in_full(drawn: Drawn) -> None:
    words = {text.get_text() for text in texts_of(drawn(of_breakdown, 3.3))}
    assert {"pytorch", "ortmodule", "ortmodule_zero1"} <= words
    assert any(text.startswith("profile too") for text in words), "where ortmodule_zero1 would have a bar"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--out", "x.gif"], "x.gif is no kind of picture; let --out end in .svg, .pdf or .png."),
        (["--out", "x.svg", "--width", "1in"], "a figure 1in wide cannot be read; give 2.5in to 40in."),
        (
            ["--out", "x.svg", "--width", "wide"],
            "wide is no width; give one such as --width 3.3in, 84mm or 240pt.",
        ),
        (["--out", "x.svg", "--models", "bert"], "no comparison is of the model bert; choose of gpt2,"),
        (["--out", "x.svg", "--backends", "ort"], "no comparison has the backend ort; choose of ortmodule,"),
        (["--out", "x.svg", "--of", "energy"], "none of these comparisons knows its energy;"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(
    two: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert command.main(["figure", str(two), *options]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(sentence)
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize("option", ["--out=x.jpg", "--width=wide"])
def test_a_figure_that_cannot_be_is_refused_before_results_are_read(option: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.report.commands.read_results", lambda _: pytest.fail("read"))
        assert command.main(["figure", "results", "--out=x.svg", option]) == 2


def test_a_long_detail_of_a_name_is_broken_into_lines(tmp_path: Path) -> None:
    words = "batch 4 × 2, length 128, bf16, checkpointing, real data"
    group = RowGroup(name="bert", detail=words, rows=[Row(bars=[])])
    chart = RowChart(title="", panels={"": [group]}, limits=(0.5, 2), label="")
    path = tmp_path / "x.svg"
    write_figure(path, lambda theme: draw_rows(chart, theme, 3.3))
    assert words in " ".join(svg_texts(path))


def test_a_damaged_file_stops_no_other_and_status_is_2(
    two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged, out = tmp_path / "damaged.csv", tmp_path / "x.svg"
    damaged.write_text("half")
    assert command.main(["figure", str(two), str(damaged), "--out", str(out)]) == 2
    assert out.exists()
    assert "damaged.csv is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "inches"),
    [("3.3in", 3.3), ("3.3", 3.3), ("84mm", 84 / 25.4), ("8.4 cm", 8.4 / 2.54), ("252pt", 252 / 72.27)],
)
def test_a_width_is_read_with_its_unit(words: str, inches: float) -> None:
    assert parse_width(words) == pytest.approx(inches)


@pytest.mark.parametrize("name", ["a$b$_c", "<b>&", "日本語", "\x1b[31mred", "a\nb"])
def test_any_name_is_drawn_as_it_is(tmp_path: Path, name: str, recwarn: pytest.WarningsRecorder) -> None:
    records = comparison({"pytorch": [[2.0], [2.0]], name: [[1.5], [1.6]]}, workload=workload(model=name))
    path = tmp_path / "x.csv"
    write_records(path, records)
    assert command.main(["figure", str(path), "--out", str(tmp_path / "x.svg")]) == 0
    assert svg_texts(tmp_path / "x.svg").count(one_line(name)) >= 2
    assert not recwarn.list


def test_an_endless_interval_does_not_squeeze_the_bars() -> None:
    low, high = ratio_limits([0.8, 1.3], [0.7, float("inf"), 0.0])
    assert 0.5 < low < 0.7
    assert 1.3 * 1.5 < high < 2.2


def test_a_report_draws_every_study_with_several_models_the_reproduction_first(
    files: Path, tmp_path: Path
) -> None:
    machine, reports = make_machine(tmp_path / "2-cores-epyc"), tmp_path / "reports"
    write(machine / "reproduce", ELEVEN[:3])
    write(
        machine / "bench",
        (ELEVEN[4], Model(name="gpt2-tiny", task="causal-lm", speed={"pytorch": 1.0, "ortmodule": 1.1})),
    )
    render_report(machine, reports)
    made = {path.name for path in reports.glob("models-*")}
    assert made == {f"models-{of}{number}.svg" for of in ("speedup", "memory") for number in ("", "-2")}
    assert {"bert-large", "distilbert-base"} <= set(svg_texts(reports / "models-speedup.svg"))
    assert "gpt2-tiny" in svg_texts(reports / "models-speedup-2.svg")
    index = (reports / "index.md").read_text(encoding="utf-8")
    assert index.index("(models-speedup.svg)") < index.index("(speedup.svg)")


def test_a_single_model_gets_no_figure_of_many(tmp_path: Path) -> None:
    assert planned_figures(figure_sets([[of_model(ELEVEN[0])]]), tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_sets_of_the_same_machine_are_told_apart_by_their_models() -> None:
    families = [[of_model(name) for name in ELEVEN[:3]], [of_model(name) for name in ELEVEN[3:5]]]
    first, second = map(describe_set, figure_sets(families))
    assert first.endswith(f": {spell_model(families[0][0].label)} and 2 others")
    assert second.endswith(f": {' and '.join(spell_model(one.label) for one in families[1])}")


@pytest.mark.parametrize("arguments", [["--help"], ["figure", "--help"], ["table", "--help"]])
def test_help_needs_no_matplotlib(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in list(sys.modules):
        if name.startswith("bench.report.figures"):
            monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 0
    assert not [name for name in sys.modules if name.startswith("bench.report.figures")]
    assert "python -m bench.report" in capsys.readouterr().out
