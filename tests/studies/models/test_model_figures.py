"""The figures over many models: what stands in them, at every width, drawn by one command."""

import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib import rc_context

from bench.errors import UserError
from bench.report import __main__ as command
from bench.report.build import render_report
from bench.report.content.collection import ReportedComparison, read_comparison
from bench.report.content.models import choose_one_of_each_model
from bench.report.figures import style
from bench.report.figures.rows import RowGroup, draw_rows, ratio_limits
from bench.report.words.formatting import one_line
from bench.results import csv_files
from bench.studies.models.choosing import choose_backends
from bench.studies.models.figures import describe_set, figure_sets, model_chart, planned_figures
from tests.support.factories import ENVIRONMENT, comparison, two_backends, with_environment, workload
from tests.support.git import COMMITTED
from tests.support.many_models import BY_NAME, ELEVEN, Model, comparisons_of, half_width, write
from tests.support.many_models import comparison as of_model
from tests.support.pages import ROOT, text_of
from tests.support.reports import make_machine, svg_texts
from tests.support.result_files import table_of_records, write_records


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of eleven results files."""
    folder = tmp_path_factory.mktemp("eleven")
    write(folder)
    return folder


@pytest.fixture(scope="module")
def eleven(files: Path) -> list[ReportedComparison]:
    return [read_comparison(path) for path in csv_files.list_files(files)]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two of them."""
    folder = tmp_path_factory.mktemp("two")
    models = (BY_NAME["gpt2"], BY_NAME["t5-large"])
    write(folder, models)
    return folder


def groups_of(comparisons: list[ReportedComparison], of: str = "speedup") -> list[RowGroup]:
    chart, _ = model_chart(comparisons, of=of)
    return [group for groups in chart.panels.values() for group in groups]


def group_of(comparisons: list[ReportedComparison], name: str, of: str = "speedup") -> RowGroup:
    return next(group for group in groups_of(comparisons, of) if group.name == name)


def made(stem: str, **changes: Any) -> ReportedComparison:
    """A comparison with a changed environment."""
    rows = table_of_records(with_environment(two_backends(), **changes))
    return ReportedComparison(stem=stem, rows=rows)


# What a chart holds


def test_a_bar_is_the_speed_up_with_its_interval() -> None:
    factor = 2.718281828459045 ** half_width(BY_NAME["t5-large"])
    rows = group_of(comparisons_of("t5-large", "gpt2"), "t5-large").rows
    for row, speed in zip(rows, (1.33, 1.29), strict=True):
        (bar,) = row.bars
        assert (bar.start, bar.end) == pytest.approx((1, speed))
        assert row.interval == pytest.approx((speed / factor, speed * factor))
        assert row.beside.startswith(f"{speed:.3f}× [")


def test_what_has_no_number_has_a_reason() -> None:
    comparisons = [of_model(model) for model in ELEVEN]
    for name, reasons in (
        ("bart-large", ["", "oom"]),
        ("beit-base", ["", "crashed"]),
        ("swinv2-base", ["diverged", "skipped"]),
        ("deberta-v2-xxlarge", ["unsupported", "unsupported"]),
    ):
        rows = group_of(comparisons, name).rows
        assert [row.reason for row in rows] == reasons, name
        assert [not row.bars for row in rows] == [bool(reason) for reason in reasons], name
    without = of_model(Model(name="m", task="masked-lm", speed={"pytorch": "oom", "ortmodule": 1.2}))
    assert group_of([without], "m").rows[0].reason == "the reference pytorch is oom"
    lone = of_model(Model(name="m", task="masked-lm", speed={"pytorch": 1.0, "ortmodule": 1.2}))
    assert [row.reason for row in group_of([lone, *comparisons_of("gpt2")], "m").rows] == ["", "not measured"]


def test_the_fastest_comes_first_whatever_is_shown_and_memory_is_the_ratio_of_peaks() -> None:
    comparisons = [of_model(model) for model in ELEVEN]
    names = [group.name for group in groups_of(comparisons)]
    assert names[:3] == ["t5-large", "roberta-large", "bart-large"]
    assert [group.name for group in groups_of(comparisons, "memory")] == names
    rows = group_of(comparisons, "gpt2", "memory").rows
    assert [row.bars[0].end for row in rows] == pytest.approx([1.04, 0.71])
    assert not any(row.interval for row in rows)


def test_the_best_pytorch_is_the_fastest_row_and_1_where_that_is_the_reference() -> None:
    slow = Model(name="m", task="masked-lm", speed={"pytorch": 1.0, "pytorch_best": 0.9, "ortmodule": 1.2})
    comparisons = [of_model(slow), *comparisons_of("gpt2")]
    assert [group_of(comparisons, name).best for name in ("m", "gpt2")] == pytest.approx([1.0, 1.05])


def test_machines_and_references_have_panels_of_their_own() -> None:
    chart, _ = model_chart([made("a"), made("b", cpu=ENVIRONMENT["cpu"] | {"family": 8})])
    assert ["family 7" in heading for heading in chart.panels] == [True, False]
    records = comparison(
        {"pytorch_fused": [[2.0], [2.0]], "ortmodule": [[1.6], [1.6]]}, reference="pytorch_fused"
    )
    chart, _ = model_chart([made("a"), ReportedComparison(stem="b", rows=table_of_records(records))])
    assert [heading.rpartition("; over ")[2] for heading in chart.panels] == ["pytorch", "pytorch_fused"]


def test_two_workloads_of_a_model_are_told_apart_and_its_shrinking_is_named() -> None:
    def of(stem: str, *overrides: str, **changes: Any) -> ReportedComparison:
        seconds = {"pytorch": [[2.0]], "ortmodule": [[1.6]]}
        made = comparison(seconds, workload=workload(**changes), overrides=overrides)
        return ReportedComparison(stem=stem, rows=table_of_records(made))

    for other, names in (
        (of("b", seq_len=64), {"bert-tiny, length 128", "bert-tiny, length 64"}),
        (of("b", "experiment=stacks"), {"bert-tiny", "bert-tiny, experiment=stacks"}),
        (of("b", size="mini"), {"bert-tiny", "bert-tiny, mini"}),
        (of("b", model="gpt2", precision="bf16"), {"bert-tiny, fp32", "gpt2, bf16"}),
    ):
        assert {group.name for group in groups_of([of("a"), other])} == names


def test_a_model_with_fewer_layers_says_so() -> None:
    one = of_model(Model(name="bert-large", task="masked-lm", size="layers:6", speed={"pytorch": 1.0}))
    for layers, published, label in ((None, None, "layers:6"), (6, 24, "6 of 24 layers")):
        rows = one.rows.assign(layers=layers, published_layers=published)
        assert ReportedComparison(stem="x", rows=rows).label == f"bert-large, {label}"


def test_what_is_no_result_is_left_out_by_name() -> None:
    (gpt2,) = comparisons_of("gpt2")
    loose = ReportedComparison(stem="loose", rows=gpt2.rows.assign(allocator="system"))
    parity = Model(name="m", task="masked-lm", speed={"pytorch": "untimed", "ortmodule": "unsupported"})
    chart, left_out = model_chart([loose, of_model(parity), *comparisons_of("t5-large")])
    assert [group.name for groups in chart.panels.values() for group in groups] == ["t5-large"]
    assert [sentence.split(" is left out")[0] for sentence in left_out] == ["loose", "m-cpux2"]
    with pytest.raises(UserError, match="no comparison to show"):
        model_chart([loose])


def test_without_the_backends_of_the_answer_all_are_shown() -> None:
    modern = Model(name="m", task="masked-lm", speed={"pytorch": 1.0, "compile": 1.2, "pytorch_zero1": 0.9})
    assert choose_backends([of_model(modern)], []) == ["compile", "pytorch_zero1"]


def test_of_several_comparisons_of_a_workload_one_stands_for_all() -> None:
    rows = comparisons_of("gpt2")[0].rows
    few = rows[rows["backend"] != "ortmodule_zero1"]
    later = rows.assign(started_at="2026-11-30T00:00:00Z")
    one = later[later["launch"] == 1]
    untimed = one["backend"] == "ortmodule_zero1"
    one = one.assign(launch=one["launch"].mask(untimed, 0), round=one["round"].mask(untimed))
    tables = {
        "b": few.assign(overrides="[]"),
        "one-launch": one.assign(overrides="[]"),
        "short": rows.assign(overrides='["seed=1", "micro_batch=4"]'),
        "a-long-name": rows.assign(overrides='["seed=1"]'),
        "another-long-name": later.assign(overrides='["seed=2"]'),
        "c-measured-with-it": later.assign(overrides='["seed=2"]'),
    }
    given = [ReportedComparison(stem=stem, rows=mine) for stem, mine in tables.items()]
    assert [one.stem for one in choose_one_of_each_model(given)] == ["another-long-name"]


def test_the_caption_names_machine_workload_interval_and_what_it_leaves_out() -> None:
    chart, _ = model_chart([of_model(model) for model in ELEVEN])
    for words in (
        "Whiskers: 95 % interval over launches.",
        "Machine: AMD EPYC, 2 cores, 2 ranks, as installed.",
        "Workload: batch 8 × 2, length 64, fp32, 3 launches.",
        "the fastest PyTorch of the same comparison (pytorch_best)",
    ):
        assert words in chart.caption
    lone = table_of_records(comparison({"pytorch": [[2.0, 2.1]], "ortmodule": [[1.6, 1.5]]}))
    chart, _ = model_chart([ReportedComparison(stem="x", rows=lone)])
    assert "Single launch: the variation between launches is not in the interval" in chart.caption


# The drawing


@pytest.mark.parametrize("width", [2.5, 13.3])
@pytest.mark.parametrize("of", ["speedup", "memory"])
def test_everything_lies_on_the_narrowest_and_the_widest_sheet(
    eleven: list[ReportedComparison], of: str, width: float
) -> None:
    chart, _ = model_chart(eleven, of=of, width=width)
    with rc_context(style.RC):
        figure = draw_rows(chart, width)
        figure.draw_without_rendering()
        box = figure.get_tightbbox()
    assert box.x0 > -0.1
    assert box.x1 < width + 0.1
    assert box.y0 > -0.1
    assert box.y1 < figure.get_figheight() + 0.1
    assert all(axes.get_position().width > 0.2 for axes in figure.axes), "there is room for bars"


def test_an_endless_interval_does_not_squeeze_the_bars() -> None:
    low, high = ratio_limits([0.8, 1.3], [0.7, float("inf"), 0.0])
    assert 0.5 < low < 0.7
    assert 1.3 * 1.5 < high < 2.2


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_command_writes_each_format_the_same_way_each_time(
    two: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    for path in (first, second):
        assert command.main(["figure", str(two), "--out", str(path)]) == 0
    assert first.read_bytes() == second.read_bytes()
    begins = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[ending]
    assert first.read_bytes().startswith(begins)
    printed = capsys.readouterr().out
    assert printed.startswith("Caption: Bars: samples/s over that of pytorch. Whiskers: 95 % interval")
    assert f"wrote {first}" in printed
    if ending == "pdf":
        assert b"/Type3" not in first.read_bytes()
        assert b"/CIDFontType2" in first.read_bytes()


def test_the_svg_has_the_width_title_models_and_backends_that_were_asked_for(
    two: Path, tmp_path: Path
) -> None:
    path = tmp_path / "x.svg"
    options = ["--width", " 3.5in", "--title", "A & B", "--backends", "ortmodule", "--models", "t5-large"]
    assert command.main(["figure", str(two), "--out", str(path), *options]) == 0
    assert 'width="252pt"' in path.read_text()
    texts = svg_texts(path)
    assert {"A & B", "ortmodule", "t5-large", "1.330×"} <= {*texts}
    assert {"gpt2", "ortmodule_zero1"}.isdisjoint(texts)
    memory = ["--of", "memory", "--title", "", "--width", "4"]
    assert command.main(["figure", str(two), "--out", str(path), *memory]) == 0
    assert "0.710×" in " ".join(svg_texts(path))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--out", "x.gif"], "x.gif is no kind of picture; let --out end in .svg, .pdf or .png."),
        (["--out", "x.svg", "--models", "bert"], "no comparison is of the model bert; choose of gpt2,"),
        (["--out", "x.svg", "--backends", "ort"], "no comparison has the backend ort; choose of ortmodule,"),
        (["--out", "x.svg", "--backends", "pytorch"], "pytorch is the reference"),
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


def test_a_damaged_or_missing_file_stops_no_other_and_status_is_2(
    two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged, out = tmp_path / "damaged.csv", tmp_path / "x.svg"
    damaged.write_text("half")
    given = ["figure", "--out", str(out), str(two), str(damaged), str(tmp_path / "nosuch")]
    assert command.main(given) == 2
    said = capsys.readouterr()
    assert "damaged.csv is damaged" in said.err
    assert "nosuch cannot be read (no such file or directory)" in said.err
    assert out.exists()


def test_the_tutorials_figure_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").symlink_to(COMMITTED / "results")
    monkeypatch.chdir(tmp_path)
    lines = text_of("docs/tutorial.md").replace("\\\n", "").splitlines()
    (words,) = (line.split()[3:] for line in lines if line.startswith("python -m bench.report "))
    for line in (words, [word.replace(".pdf", ".svg") for word in words]):
        assert command.main(line) == 0
        assert (tmp_path / line[line.index("--out") + 1]).stat().st_size > 500
    caption, *_ = re.findall("^Caption: .*", capsys.readouterr().out, re.MULTILINE)
    assert f"> {caption}\n" in text_of("docs/tutorial.md")
    assert svg_texts(tmp_path / "own-gpt.svg") == svg_texts(ROOT / "docs" / "examples" / "own-gpt.svg")


@pytest.mark.parametrize("name", ["a$b$_c", "<b>&", "日本語", "\x1b[31mred", "a\nb"])
def test_any_name_is_drawn_as_it_is(tmp_path: Path, name: str, recwarn: pytest.WarningsRecorder) -> None:
    records = comparison({"pytorch": [[2.0], [2.0]], name: [[1.5], [1.6]]}, workload=workload(model=name))
    path = tmp_path / "x.csv"
    write_records(path, records)
    assert command.main(["figure", str(path), "--out", str(tmp_path / "x.svg")]) == 0
    assert svg_texts(tmp_path / "x.svg").count(one_line(name)) >= 2
    assert not recwarn.list


def test_a_report_draws_every_study_with_several_models_the_reproduction_first(tmp_path: Path) -> None:
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
    planned = planned_figures([[of_model(ELEVEN[0])]], tmp_path)
    assert [figure.path.name for figure, _ in planned] == ["trade-off-bert-large-cpux2.svg"]


def test_sets_of_the_same_machine_are_told_apart_by_their_models() -> None:
    families = [[of_model(name) for name in ELEVEN[:3]], [of_model(name) for name in ELEVEN[3:5]]]
    first, second = map(describe_set, figure_sets(families))
    assert first.endswith(f": {families[0][0].label} and 2 others")
    assert second.endswith(f": {' and '.join(one.label for one in families[1])}")
