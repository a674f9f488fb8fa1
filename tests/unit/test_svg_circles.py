"""Circles of hatches are written as arcs, and look as before."""

import io
import re

import pytest
from matplotlib.figure import Figure

from bench.report.figures.small_svg import shorten_circles


def drawn(hatch: str) -> str:
    figure = Figure(figsize=(2, 1))
    axes = figure.add_subplot()
    axes.barh([0, 1], [1, 2], hatch=hatch)
    written = io.StringIO()
    figure.savefig(written, format="svg")
    return written.getvalue()


@pytest.mark.parametrize("hatch", ["...", "ooo", "OO"])
def test_every_circle_keeps_its_place_and_its_radius(hatch: str) -> None:
    svg = drawn(hatch)
    (curves,) = re.findall(r'<pattern.*?<path d="(.*?)"', svg, re.DOTALL)
    (arcs,) = re.findall(r'<pattern.*?<path d="(.*?)"', shorten_circles(svg), re.DOTALL)
    assert "C" not in arcs
    assert len(arcs) < len(curves) / 5
    assert circles_of_arcs(arcs) == pytest.approx(circles_of_curves(curves), abs=0.01)


def test_what_is_no_circle_stays_as_it_is() -> None:
    svg = drawn("///")
    assert shorten_circles(svg) == svg


def circles_of_curves(path: str) -> list[float]:
    """Centre and radius of each, from the points between its curves."""
    found = []
    for circle in path.split("z")[:-1]:
        numbers = [[float(n) for n in line[2:].split()] for line in circle.strip().splitlines()]
        points = [line[-2:] for line in numbers]
        top, foot = (edge(y for _, y in points) for edge in (max, min))
        found += [numbers[0][0], (top + foot) / 2, (top - foot) / 2]
    return found


def circles_of_arcs(path: str) -> list[float]:
    """The same, from start, radius and the way across of its first arc."""
    found = []
    for circle in path.split("z")[:-1]:
        _, x, y, _, radius, _, _, _, _, _, across, *_ = circle.split()
        found += [float(x), float(y) + float(across) / 2, float(radius)]
    return found
