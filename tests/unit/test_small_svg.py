"""SVG figures are small, follow the screen, and show what matplotlib drew."""

import io
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from bench.report.figures import style
from bench.report.figures.picture_files import write_figure
from bench.report.figures.sheet import Sheet
from bench.report.figures.small_svg import HALO, make_small
from bench.report.figures.style import Theme


def draw(theme: Theme) -> Figure:
    """A hatched bar, thirty lines, and words on them."""
    sheet = Sheet(6.6, theme)
    sheet.bar(0.5, 3.0, 0.5, 0.2, ("#E69F00", "..."))
    for number in range(30):
        sheet.line((0.1 * number,) * 2, (0.0, 1.0), width=1, color=theme.grid)
    sheet.text(1.0, 0.5, "out of memory", color=theme.status, with_halo=True)
    sheet.y = 1.0
    return sheet.finish()


def written(path: Path, theme: Theme) -> str:
    write_figure(path, draw, title="a title", description="what is seen", theme=theme)
    return path.read_text(encoding="utf-8")


def test_a_light_figure_has_the_dark_colours_too_and_bars_keep_their_edges(tmp_path: Path) -> None:
    svg = written(tmp_path / "a.svg", style.LIGHT)
    usual, _, on_dark = svg.partition("@media screen and (prefers-color-scheme:dark){")
    for name in ("ground", "grid", "status"):
        assert f":{getattr(style.LIGHT, name)}" in usual
        assert f":{getattr(style.DARK, name)}" in on_dark
    assert style.EDGE in usual
    assert style.EDGE not in on_dark


def test_a_dark_figure_is_dark_everywhere(tmp_path: Path) -> None:
    svg = written(tmp_path / "a.svg", style.DARK)
    assert "@media" not in svg
    assert f"fill:{style.DARK.ground}" in svg


def test_no_colour_of_bars_is_one_of_the_ground_so_that_a_dark_screen_leaves_them() -> None:
    looks = [
        *style.PARTS.values(),
        *style.KINDS.values(),
        *(style.look(f"any {number}") for number in range(40)),
    ]
    changing = {getattr(style.LIGHT, name) for name in ("ground", "ink", "faint", "grid", "band", "best")}
    assert changing.isdisjoint(colour.lower() for colour, _ in looks)


def test_words_with_a_rim_stay_words(tmp_path: Path) -> None:
    svg = written(tmp_path / "a.svg", style.LIGHT)
    assert svg.count(">out of memory</text>") == 2, "once as the rim behind"
    assert f'id="{HALO}"' not in svg
    assert "<desc>what is seen</desc>" in svg


def test_the_file_is_several_times_smaller_than_matplotlib_s_own(tmp_path: Path) -> None:
    original = io.StringIO()
    draw(style.LIGHT).savefig(original, format="svg")
    assert len(written(tmp_path / "a.svg", style.LIGHT)) < len(original.getvalue()) / 5


@pytest.mark.parametrize("hatch", ["...", "ooo", "OO", "///", "\\\\\\", "xxx", "+++", "--", "||", "////"])
def test_a_tile_holds_a_whole_number_of_lines_of_every_hatch(hatch: str) -> None:
    figure = Figure(figsize=(2, 1))
    figure.add_subplot().barh([0, 1], [1, 2], hatch=hatch)
    original = io.StringIO()
    figure.savefig(original, format="svg")
    whole = starts_in_pattern(original.getvalue())
    tile = starts_in_pattern(make_small(original.getvalue(), ground="#ffffff", dark={}))
    assert tile <= whole
    assert len(tile) < len(whole) / 2 or hatch[0] in "/\\x", "lines across run through many tiles"
    inside = {(x, y) for x, y in whole if 24 <= x < 47.9 and 24 <= y < 47.9}
    assert {(round(x - 24, 2), round(y - 24, 2)) for x, y in inside} <= tile


def starts_in_pattern(svg: str) -> set[tuple[float, float]]:
    """Where the lines of a hatch begin, in points."""
    (path,) = re.findall(r"<path[^>]* d=\"([^\"]*)\"", svg[svg.index("<pattern") :])
    starts = re.findall(r"M *(-?[\d.]+) *(-?[\d.]+)", path)
    return {(round(float(x), 2), round(float(y), 2)) for x, y in starts}
