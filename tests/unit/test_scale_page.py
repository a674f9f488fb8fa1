"""What is predicted for many GPUs: the page says what the tables hold, and no figure shows it as measured."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from bench.analysis.scale.tables import BYTES, CHECKS, MEMORY, PUBLISHED, QUANTITIES, SCALING, SECONDS
from bench.errors import UserError
from bench.report.build import render_all, write_scale
from bench.report.content.scale import Banded, Scaling, read_predictions
from bench.report.figures import scale, style
from bench.report.pages.scale import accuracy_in_words, scale_page
from bench.report.render.markdown import render_markdown
from tests.support.reports import svg_texts

Row = dict[str, Any]

SPEED = {
    "ddp": {1: 10.0, 8: 76.0, 64: 576.0, 1024: 8192.0},
    "zero1": {1: 10.0, 8: 80.0, 64: 570.0, 1024: 8000.0},
}


def point(sharding: str, ranks: int, samples: float, **changes: Any) -> Row:
    """One second's step of a rank alone; the bracket reaches 10 % to either side."""
    step, efficiency = 10.0 * ranks / samples, samples / ranks / 10.0
    banded = {
        "predicted_step_s": step,
        "predicted_samples_per_s": samples,
        "predicted_efficiency": efficiency,
    }
    bounds = {f"{name}_low": 0.9 * value for name, value in banded.items()}
    bounds |= {f"{name}_high": 1.1 * value for name, value in banded.items()}
    return {
        "model": "bert-large",
        "topology": "dgx-a100",
        "sharding": sharding,
        "precision": "bf16",
        "volume": "counted",
        "scaling": "weak",
        "basis": "assumed: the share of the peak",
        "command": "make scale MODEL=bert-large TOPOLOGY=dgx-a100",
        "git_commit": "abc123def456",
        "ranks": ranks,
        "micro_batch": 10,
        "seq_len": 128,
        **banded,
        **bounds,
        "predicted_computed_s": 1.0,
        "predicted_exposed_s": step - 1.0,
        "predicted_memory_gib": 20.0,
        "memory_gib": 79.25,
    } | changes


def points(**changes: Any) -> list[Row]:
    return [
        point(sharding, ranks, samples, **changes)
        for sharding, speeds in SPEED.items()
        for ranks, samples in speeds.items()
    ]


def check(quantity: str, measured: float, predicted: float, **changes: Any) -> Row:
    return {
        "machine": "2-cores",
        "model": "bert-mini",
        "backend": "pytorch",
        "sharding": "ddp",
        "link": "loopback",
        "quantity": quantity,
        "unit": QUANTITIES[quantity].unit,
        "measured_in": "parts/bert-mini-cpux2.csv",
        "ranks": 2,
        "measured": measured,
        "predicted": predicted,
        "error": predicted / measured - 1,
    } | changes


def checks() -> list[Row]:
    return [
        check(
            SECONDS, 1.0, 1.04, measured_low=0.98, measured_high=1.01, predicted_low=1.0, predicted_high=1.1
        ),
        check(SECONDS, 2.0, 1.8, sharding="zero1", link="1 Gbit/s"),
        check(BYTES, 1000, 1000),
        check(MEMORY, 300 * 2**20, 312 * 2**20),
    ]


def ratio(model: str, published: float, predicted: float, **changes: Any) -> Row:
    return {
        "model": model,
        "hardware": "8x V100",
        "engine": "pytorch",
        "source": "a page",
        "why": f"why of {model}",
        "ranks": 8,
        "micro_batch": 16,
        "published_ratio": published,
        "predicted_ratio": predicted,
        "predicted_ratio_low": 0.97 * predicted,
        "predicted_ratio_high": 1.03 * predicted,
        "error": predicted / published - 1,
    } | changes


def ratios() -> list[Row]:
    return [
        ratio("bert-large", 1.10, 1.10),
        ratio("gpt2", 1.00, 1.10),
        ratio("t5-large", 1.25, 1.00),
        ratio("bart-large", 1.20, 1.14),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All three kinds of files."""
    made = tmp_path / "results" / "predicted"
    SCALING.write(made / "scaling-bert-large-dgx-a100.csv", points())
    CHECKS.write(made / "checks.csv", checks())
    PUBLISHED.write(made / "published.csv", ratios())
    return made


def page_of(folder: Path) -> str:
    return render_markdown(scale_page(read_predictions(folder)))


def scaling_of(folder: Path, rows: list[Row]) -> Scaling:
    SCALING.write(folder / "scaling-x.csv", rows)
    (found,) = read_predictions(folder).scalings
    return found


def test_the_answer_is_true_of_the_rows_and_says_that_it_is_predicted(tmp_path: Path) -> None:
    SCALING.write(tmp_path / "scaling-x.csv", points())
    page = page_of(tmp_path)
    assert "**ZeRO-1 is predicted to be faster than DDP at some world size for 1 of 1 pair of" in page
    assert (
        " | 1.053× at 8 ranks | 95 % [86–104] | 90 % [81–99] | 80 % [72–88] | DDP: yes; ZeRO-1: yes |" in page
    )


def test_where_zero1_is_nowhere_faster_the_answer_says_how_near_it_comes(tmp_path: Path) -> None:
    rows = [point("ddp", 8, 76.0), point("zero1", 8, 38.0), point("ddp", 2, 19.0), point("zero1", 2, 18.0)]
    SCALING.write(tmp_path / "scaling-x.csv", rows)
    page = page_of(tmp_path)
    assert "faster than DDP at some world size for none of 1 pair of" in page
    assert " | 0.947× at 2 ranks | 95 % [86–104] | – | – | " in page


def test_without_zero1_nothing_is_said_of_it(tmp_path: Path) -> None:
    SCALING.write(tmp_path / "scaling-x.csv", [point("ddp", 8, 76.0)])
    page = page_of(tmp_path)
    assert "at some world size for none of 0 pairs" in page
    assert " | – | 95 % [86–104] | – | – | DDP: yes |" in page


def test_shardings_that_fit_later_or_never_are_named(tmp_path: Path) -> None:
    rows = [
        *(point("ddp", ranks, ranks, predicted_memory_gib=90) for ranks in (1, 2, 4)),
        *(point("zero1", ranks, ranks, predicted_memory_gib=100 - 15 * ranks) for ranks in (1, 2, 4)),
        *(point("fsdp2", ranks, ranks, predicted_memory_gib=10) for ranks in (1, 2, 4)),
    ]
    SCALING.write(tmp_path / "scaling-x.csv", rows)
    assert "| DDP: no; ZeRO-1: from 2 ranks on; FSDP2: yes |" in page_of(tmp_path)


def test_the_table_has_the_usual_world_sizes_or_all_where_there_is_none(tmp_path: Path) -> None:
    rows = [*points(), point("ddp", 16, 150.0, predicted_memory_gib=90)]
    SCALING.write(tmp_path / "scaling-x.csv", rows)
    page = page_of(tmp_path)
    assert "| 1,024 | DDP | 8,192 [7,373–9,011] | 80 % [72–88] | 20 % | 20.0 of 79.2 GiB | yes |" in page
    row = "| 16 | DDP | 150.0 [135.0–165.0] | 94 % [84–103] | 6 % | 90.0 of 79.2 GiB | no |"
    assert row not in page
    assert "trong scaling" not in page
    SCALING.write(tmp_path / "scaling-x.csv", rows[-1:])
    assert row in page_of(tmp_path)


def test_strong_scaling_is_a_table_of_its_own(tmp_path: Path) -> None:
    SCALING.write(tmp_path / "scaling-x.csv", [*points(), *points(scaling="strong")])
    page = page_of(tmp_path)
    weak, strong = page.index("Weak scaling (as many samples on every rank)"), page.index("Strong scaling (")
    assert weak < strong
    assert page.count("| 64 | ZeRO-1 |") == 2


def test_what_a_textbook_says_is_sent_is_not_mixed_with_what_was_counted(tmp_path: Path) -> None:
    book = [point("zero1", ranks, samples, volume="textbook") for ranks, samples in ((8, 80.0), (64, 600.0))]
    assert scaling_of(tmp_path, [*points(), *book]) == scaling_of(tmp_path, points())
    SCALING.write(tmp_path / "scaling-x.csv", book)
    with pytest.raises(UserError, match="model is blank"):
        read_predictions(tmp_path)


def test_checks_are_summed_up_and_listed_with_measured_and_predicted_apart(folder: Path) -> None:
    bytes_, memory, seconds = read_predictions(folder).accuracies
    assert accuracy_in_words(bytes_) == "bytes sent: equal at 1 point"
    assert accuracy_in_words(memory) == (
        "memory of a rank: mean absolute error 4.0 % over 1 point, largest +4.0 % (BERT-Mini, DDP, 2 "
        "ranks, loopback); "
        "1 of 1 within ±10 %"
    )
    assert accuracy_in_words(seconds) == (
        "seconds of a step: mean absolute error 7.0 % over 2 points, largest −10.0 % (BERT-Mini, ZeRO-1, "
        "2 ranks, "
        "1 Gbit/s); 1 of 2 within ±8 %"
    )
    page = page_of(folder)
    assert "| quantity | measured | predicted | error | measured in |" in page
    assert "| seconds of a step (s) | 1.000 [0.980–1.010] | 1.040 [1.000–1.100] | +4.0 % |" in page
    assert "| bytes sent (B) | 1,000 | 1,000 | equal |" in page


def test_memory_in_bytes_is_shown_in_mib_and_bounds_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    exact = {"measured_low": 300 * 2**20, "measured_high": 300 * 2**20}
    row = check(MEMORY, 300 * 2**20, 330 * 2**20) | exact
    CHECKS.write(tmp_path / "checks.csv", [row])
    assert "| memory of a rank (MiB) | 300.0 | 330.0 | +10.0 % |" in page_of(tmp_path)


def test_nothing_sent_and_nothing_predicted_is_equal_though_its_error_has_no_number(tmp_path: Path) -> None:
    CHECKS.write(
        tmp_path / "checks.csv", [check(BYTES, 1, 1) | {"measured": 0, "predicted": 0, "error": None}]
    )
    assert "| bytes sent (B) | 0.000 | 0.000 | equal |" in page_of(tmp_path)


def test_the_published_ratios_that_were_missed_most_come_first_and_are_explained(folder: Path) -> None:
    page = page_of(folder)
    assert "mean absolute error 8.8 % over 4 points; 1 within the predicted bracket; 2 times the" in page
    missed = [line for line in page.splitlines() if "why of" in line]
    models = ["t5-large", "gpt2", "bart-large", "bert-large"]
    assert [line.split(" | ")[0] for line in missed] == [f"| {model}" for model in models]
    assert missed[0] == (
        "| t5-large | 8x V100 | pytorch | 8 | 16 | 1.250× | 1.000× [0.970–1.030] | −20.0 % | why of t5-large "
        "| a page |"
    )


def test_the_assumptions_are_named(folder: Path) -> None:
    assert "- machines: conf/topology/dgx-a100.yaml has every figure with its bounds" in page_of(folder)


@pytest.mark.parametrize(
    ("kept", "words", "others"),
    [
        ("scaling-bert-large-dgx-a100.csv", "## The answer", ("## Checks", "## Published")),
        ("checks.csv", "## Checks", ("## The answer", "## Every", "## Published")),
        ("published.csv", "## Published", ("## The answer", "## Every", "## Checks")),
    ],
)
def test_a_file_that_is_not_there_leaves_out_its_part(
    folder: Path, kept: str, words: str, others: tuple[str, ...]
) -> None:
    for path in folder.glob("*.csv"):
        if path.name != kept:
            path.unlink()
    page = page_of(folder)
    assert words in page
    assert not any(other in page for other in others)
    assert len(scale.write_scale_figures(read_predictions(folder), folder)) == 1


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    assert "There are no predictions yet." in page_of(tmp_path)


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("scaling-bert-large-dgx-a100.csv", None, "cannot be read as predictions for many ranks"),
        ("published.csv", None, "cannot be read as predictions"),
        ("checks.csv", [check(SECONDS, 1.0, 1.0) | {"measured": None}], "measured is blank"),
        ("checks.csv", [check(SECONDS, 1.0, 1.0) | {"quantity": "patience"}], "quantity is patience"),
        ("scaling-bert-large-dgx-a100.csv", points(scaling="sideways"), "scaling is sideways"),
        (
            "scaling-bert-large-dgx-a100.csv",
            [*points(), *points()],
            "a world size of a sharding is there twice",
        ),
        ("scaling-bert-large-dgx-a100.csv", points(topology="a-moon"), "topology a-moon is not known"),
        ("scaling-bert-large-dgx-a100.csv", [point("ddp", 8, 76.0) | {"ranks": 0}], "ranks is 0"),
    ],
)
def test_a_damaged_file_is_one_sentence(
    folder: Path, tmp_path: Path, name: str, rows: list[Row] | None, words: str
) -> None:
    path = folder / name
    if rows is None:
        path.write_text(path.read_text()[:200])
    else:
        (CHECKS if name == "checks.csv" else SCALING).write(path, rows)
    with pytest.raises(UserError, match=words):
        page_of(folder)
    written, (sentence,) = write_scale(tmp_path / "results", tmp_path / "reports")
    assert not written
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_the_report_has_the_page_its_figures_and_the_link(folder: Path, tmp_path: Path) -> None:
    results, reports = tmp_path / "results", tmp_path / "reports"
    render_all(results, reports, tmp_path / "rendered")
    assert "](scale.md)" in (reports / "index.md").read_text(encoding="utf-8")
    written, refused = write_scale(results, reports)
    assert refused == []
    names = [path.name for path in written]
    assert names == ["scale.md", "scale-bert-large-dgx-a100.svg", "scale-checks.svg", "scale-published.svg"]
    page = (reports / "scale.md").read_text(encoding="utf-8")
    titles = (
        "predicted efficiency on many ranks",
        "Predicted over measured",
        "published and predicted ratio",
    )
    for path, title in zip(written[1:], titles, strict=True):
        assert f"]({path.name})" in page
        assert title in " ".join(svg_texts(path))
    first = {path: path.read_bytes() for path in written}
    write_scale(results, reports)
    assert first == {path: path.read_bytes() for path in written}, "the same bytes"


# Figures


def drawn(figure: Figure, begin: str) -> list[str]:
    """The ids of what it draws that begin so."""
    ids = [one.get_gid() for axes in figure.axes for one in axes.get_children()]
    return [one for one in ids if one and one.startswith(begin)]


@pytest.mark.parametrize("theme", [style.LIGHT, style.DARK])
def test_scaling_is_dashed_and_hollow_with_a_band_for_each_sharding(
    tmp_path: Path, theme: style.Theme
) -> None:
    found = scaling_of(
        tmp_path,
        [
            *points(),
            *points(scaling="strong"),
            *(point("fsdp2", n, n, predicted_memory_gib=99) for n in (1, 8)),
        ],
    )
    with rc_context(style.rc(theme)):
        figure = scale.draw_scaling(found, theme)
    names = {"DDP-weak", "ZeRO-1-weak", "FSDP2-weak", "DDP-strong", "ZeRO-1-strong"}
    for kind in ("line", "band", "points"):
        assert {*drawn(figure, f"{kind}-")} == {f"{kind}-{name}" for name in names}
    assert drawn(figure, "does-not-fit") == ["does-not-fit-FSDP2-weak"]
    lines = {one.get_gid(): one for axes in figure.axes for one in axes.lines if one.get_gid()}
    looks = set()
    for name in names:
        assert lines[f"line-{name}"].is_dashed()
        assert lines[f"points-{name}"].get_markerfacecolor() == "none"
        looks.add((lines[f"points-{name}"].get_marker(), lines[f"line-{name}"].get_color()))
    assert len(looks) == 3, "one look for each sharding"
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["", "weak scaling, predicted", "strong scaling, predicted"]


def test_checks_are_filled_with_a_group_for_each_quantity_and_the_band_of_its_rule(folder: Path) -> None:
    with rc_context(style.rc(style.LIGHT)):
        ground, axes = scale.draw_checks(read_predictions(folder).accuracies, style.LIGHT).axes
    headings = [text.get_text() for text in ground.texts if text.get_fontweight() == "bold"][1:]
    assert [heading.split(":")[0] for heading in headings] == [
        "bytes sent",
        "memory of a rank",
        "seconds of a step",
    ]
    bands = [band.get_datalim(axes.transData) for band in axes.collections]
    assert [(band.x0, band.x1) for band in bands] == [
        pytest.approx(
            (1 - QUANTITIES[heading.split(":")[0]].allowed, 1 + QUANTITIES[heading.split(":")[0]].allowed)
        )
        for heading in headings[1:]
    ]
    marks = [line for line in axes.lines if line.get_gid() == "checked"]
    assert len(marks) == 4, "seconds are of two shardings"
    accuracies = read_predictions(folder).accuracies
    drawn_ratios = [float(value) for line in marks for value in np.asarray(line.get_xdata())]
    assert drawn_ratios == pytest.approx(
        [check.error + 1 for accuracy in accuracies for check in accuracy.checks]
    )
    assert all(line.get_markerfacecolor() != "none" for line in marks)


def test_published_ratios_are_filled_and_predicted_ones_hollow(folder: Path) -> None:
    with rc_context(style.rc(style.LIGHT)):
        figure = scale.draw_published(read_predictions(folder).published, style.LIGHT)
    assert len(drawn(figure, "published")) == len(drawn(figure, "predicted")) == len(ratios())
    lines = [one for one in figure.axes[1].lines if one.get_gid() in ("published", "predicted")]
    faces = {line.get_gid(): line.get_markerfacecolor() for line in lines}
    assert faces == {"published": style.LIGHT.ink, "predicted": style.LIGHT.ground}


def test_any_world_sizes_and_a_single_point_are_drawn(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    for rows in ([point("a-new-sharding", 3, 25.0)], [point("ddp", n, 9.0 * n) for n in (3, 6, 96)]):
        found = scaling_of(tmp_path, rows)
        with rc_context(style.rc(style.LIGHT)):
            assert scale.draw_scaling(found, style.LIGHT)
    without = [check(SECONDS, 1.0, 1.0), check(BYTES, 1, 1) | {"measured": 0, "predicted": 0}]
    for some in (without, without[1:]):
        CHECKS.write(tmp_path / "checks.csv", some)
        with rc_context(style.rc(style.LIGHT)):
            assert scale.draw_checks(read_predictions(tmp_path).accuracies, style.LIGHT)
    assert not recwarn.list


def test_brackets_have_the_digits_of_their_number() -> None:
    assert Banded(value=1234.4, low=1200.0, high=1270.0).words() == "1,234 [1,200–1,270]"
    assert Banded(value=0.5, low=0.5, high=0.5).words() == "0.500"
