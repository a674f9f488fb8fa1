"""The figures: what is written in them, whatever the names and the numbers."""

import re
from pathlib import Path

import pytest

from bench.report.build import render_report
from bench.report.figures import style
from bench.report.words import formatting
from tests.support.factories import comparison, failed
from tests.support.reports import golden_records, rendered, save, svg_texts


def test_the_figure_shows_every_value_interval_verdict_and_status(tmp_path: Path) -> None:
    svg = rendered(tmp_path, golden_records())
    texts = svg_texts(svg)
    for words in (
        "Throughput relative to pytorch",
        "ortmodule",
        "1.250× faster [1.250, 1.250]",
        "ortmodule_zero1",
        "unsupported",
        "speed-up over pytorch (×, higher is better)",
    ):
        assert words in texts
    whole = " ".join(texts)
    assert "Example CPU" in whole
    assert "2 ranks" in whole


def test_a_backend_without_speedup_shows_the_reason_in_place_of_its_bar(tmp_path: Path) -> None:
    records = [failed("pytorch", "oom", "no memory"), *comparison({"ortmodule": [[1.5]]})]
    svg = rendered(tmp_path, records)
    texts = svg_texts(svg)
    assert "no speed-up: the reference pytorch is oom" in " ".join(texts)
    assert not any(re.match(r"\d\.\d{3}×", words) for words in texts)


def test_a_single_launch_is_admitted_under_the_figure(tmp_path: Path) -> None:
    records = comparison({"pytorch": [[2.0, 2.1]], "ortmodule": [[1.5, 1.6]]})
    svg = rendered(tmp_path, records)
    below = svg.with_name("index.md").read_text(encoding="utf-8").partition("(speedup.svg)")[2]
    assert "the variation between launches is not in the interval" in below.strip().splitlines()[0]


def test_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    save(tmp_path, golden_records())
    first, second = (render_report(tmp_path / "results", tmp_path / name).written for name in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert {path.name for path in first} >= {"index.md", "index.html", "speedup.svg", "memory.svg"}


@pytest.mark.parametrize("name", ["a$b$_c", "<b>&", "日本語", "x" * 70, "\x1b[31mred\x00", "a\nb"])
def test_any_name_gives_a_wellformed_figure_without_a_warning(
    tmp_path: Path, name: str, recwarn: pytest.WarningsRecorder
) -> None:
    records = comparison({"pytorch": [[2.0], [2.0]], name: [[1.5], [1.6]]})
    svg = rendered(tmp_path, records)
    shown = formatting.one_line(name)
    texts = svg_texts(svg)
    cut = [text.removesuffix("…") for text in texts if text.endswith("…")]
    assert shown in "".join(texts) or any(map(shown.startswith, cut))
    assert not recwarn.list


def test_an_infinite_interval_and_a_single_round_are_drawn(tmp_path: Path) -> None:
    far = comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.0], [1e120]]})
    lone = comparison({"pytorch": [[2.0]], "ortmodule": [[1.5]]})
    for records, shown in ((far, "inconclusive [0.000, inf]"), (lone, "inconclusive no interval")):
        svg = rendered(tmp_path, records)
        assert any(text.endswith(shown) for text in svg_texts(svg))


def test_a_known_backend_looks_the_same_everywhere_and_no_two_of_a_figure_alike() -> None:
    names = ["pytorch_best@modern", "ortmodule", "pytorch_best", "pytorch_fused", "never heard of"]
    few, many = style.looks(names), style.looks([*names, *map(str, range(30))])
    assert few["ortmodule"] == many["ortmodule"]
    assert len({colour for colour, _ in few.values()}) == len(names)
    assert len({*many.values()}) == len(many)
