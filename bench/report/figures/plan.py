"""Which figures a report has, and how each is written."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from matplotlib.figure import Figure

from bench.report.content.collection import Collection, ReportedComparison
from bench.report.content.pictures import UNCONTROLLED, ReportFigure, numbered
from bench.report.figures import comparisons, waterfall
from bench.report.figures.breakdown_chart import base_seconds, draw_breakdown_of
from bench.report.figures.comparisons import Page
from bench.report.figures.convergence import draw_convergence
from bench.report.figures.picture_files import write_figure
from bench.report.figures.style import Theme

MOST = 8  # figures of a kind at most: more take minutes, and the tables hold all of it

OF_PAGES: dict[str, Callable[[Page, Theme], Figure]] = {
    "speedup": comparisons.draw_speedup,
    "memory": comparisons.draw_memory,
}

OF_ONE: dict[
    str, tuple[Callable[[ReportedComparison, Theme], Figure], Callable[[ReportedComparison], object]]
] = {
    "breakdown": (draw_breakdown_of, lambda comparison: comparison.others and base_seconds(comparison)),
    "converge": (draw_convergence, lambda comparison: comparison.convergence),
    "attribution": (waterfall.draw_attribution, lambda comparison: comparison.attribution),
}
"""Figures of one comparison, of those measured last; and what a comparison needs for one."""


Planned: TypeAlias = tuple[ReportFigure, Callable[[], None]]  # a figure, and what draws and writes it


def planned_figures(collection: Collection, folder: Path) -> list[Planned]:
    """The figures of these results, in the order in which they are shown."""

    def plan(name: str, kind: str, draw: Callable[[Theme], Figure], of: str = "") -> Planned:
        figure = ReportFigure(path=folder / f"{name}.svg", kind=kind, of=of)
        return figure, partial(write_figure, figure.path, draw)

    pages = comparisons.cut_into_pages(collection.panels)
    of_pages = [
        plan(numbered(kind, number), kind, partial(draw, page))
        for kind, draw in OF_PAGES.items()
        for number, page in enumerate(pages[:MOST], 1)
    ]
    of_one = [
        plan(f"{kind}-{comparison.anchor}", kind, partial(draw, comparison), comparison.title)
        for kind, (draw, _) in OF_ONE.items()
        for comparison in _with(kind, collection)[-MOST:]
    ]
    of_settings = [
        plan(numbered(UNCONTROLLED, number), UNCONTROLLED, partial(waterfall.draw_fairness, *item), item[0])
        for number, item in enumerate(collection.fairness.items(), 1)
    ]
    return [*of_pages, *of_one, *of_settings]


def not_drawn(collection: Collection) -> list[str]:
    """A sentence for each figure that does not show all comparisons."""
    pages, total = comparisons.cut_into_pages(collection.panels), len(collection.controlled)
    count = sum(len(comparisons.comparisons_of(page)) for page in pages[:MOST])
    first = f"drawn for the first {count} of {total} comparisons"
    return [f"{name}: {first}" for name in OF_PAGES if count < total] + [
        f"{name}: drawn for the comparisons measured last, {MOST} of {count}"
        for name in OF_ONE
        if (count := len(_with(name, collection))) > MOST
    ]


def _with(name: str, collection: Collection) -> list[ReportedComparison]:
    """The comparisons that have what a figure of `OF_ONE` shows, those measured last at the end."""
    _, has_it = OF_ONE[name]
    return sorted(filter(has_it, collection.controlled), key=lambda comparison: comparison.measured_at)
