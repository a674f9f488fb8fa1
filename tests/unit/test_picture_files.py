"""SVG figures are small, follow the screen, and show what matplotlib drew."""

import re
from pathlib import Path

from matplotlib.figure import Figure

from bench.report.figures import style
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import Bar, Row, RowChart, RowGroup, draw_rows
from bench.report.figures.style import Theme

LOOKS = [
    *style.PARTS.values(),
    *style.KINDS.values(),
    *style.looks(["pytorch", "ortmodule", "ortmodule_zero1", "compile", *map(str, range(40))]).values(),
]


def draw(theme: Theme) -> Figure:
    """A hatched bar and a status."""
    rows = [
        Row(bars=[Bar(0, 1.2345678, ("#E69F00", "|||"))], beside="1.2345678"),
        Row(reason="out of memory"),
    ]
    panels = {"": [RowGroup(rows=rows)]}
    return draw_rows(RowChart(title="", panels=panels, limits=(0, 2), label="seconds"), theme)


def written(path: Path, theme: Theme) -> str:
    write_figure(path, draw, title="a title", description="what is seen", theme=theme)
    return path.read_text(encoding="utf-8")


def test_a_light_figure_has_the_dark_colours_too_and_bars_keep_their_edges(tmp_path: Path) -> None:
    svg = written(tmp_path / "a.svg", style.LIGHT)
    on_dark, _, usual = svg.partition("@media screen and (prefers-color-scheme:dark){")[2].partition(
        "</style>"
    )
    for name in ("ground", "grid", "status", "ink"):
        light, dark = getattr(style.LIGHT, name), getattr(style.DARK, name)
        kinds = re.findall(rf'style="[^"]*(fill|stroke): {light}', usual)
        assert kinds, "the colour is used"
        for kind in kinds:
            assert f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}' in on_dark
    assert f"stroke: {style.EDGE}" in usual
    assert style.EDGE not in on_dark


def test_a_dark_figure_is_dark_everywhere(tmp_path: Path) -> None:
    svg = written(tmp_path / "a.svg", style.DARK)
    assert "@media" not in svg
    assert f"fill: {style.DARK.ground}" in svg
    assert style.LIGHT.ground not in svg


def test_no_colour_of_bars_is_one_of_the_ground_so_that_a_dark_screen_leaves_them() -> None:
    changing = {getattr(style.LIGHT, name) for name in ("ground", "ink", "faint", "grid", "best")}
    assert changing.isdisjoint(colour.lower() for colour, _ in LOOKS)


def test_hatches_are_of_straight_lines_which_take_few_bytes() -> None:
    assert {sign for _, hatch in LOOKS for sign in hatch} <= set("/\\|-+x")


def test_words_and_their_numbers_stay_as_they_are(tmp_path: Path) -> None:
    svg = written(tmp_path / "a.svg", style.LIGHT)
    assert svg.count(">out of memory</text>") == 1
    assert ">1.2345678</text>" in svg
    assert "<desc>what is seen</desc>" in svg


def test_coordinates_have_two_decimals(tmp_path: Path) -> None:
    paths = re.findall(r' d="([^"]*)"', written(tmp_path / "a.svg", style.LIGHT))
    assert len(paths) > 8
    assert not any(re.search(r"\.\d{3}", path) for path in paths)
