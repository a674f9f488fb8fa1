"""Which figures a report has, and how each is written."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from matplotlib.figure import Figure

from bench.report.content.collection import Collection, ReportedComparison
from bench.report.content.pictures import UNCONTROLLED, ReportFigure, numbered
from bench.report.figures import comparisons, trade_off, waterfall
from bench.report.figures.breakdown_chart import base_seconds, breakdown_of
from bench.report.figures.comparisons import Page
from bench.report.figures.convergence import CAPTION, draw_convergence
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import RowChart, draw_rows
from bench.report.figures.style import LIGHT, Theme

MOST = 8  # figures of a kind at most: more take minutes, and the tables hold all of it

OF_PAGES: dict[str, Callable[[Page, Theme], RowChart]] = {
    "speedup": comparisons.speedup_chart,
    "memory": comparisons.memory_chart,
}

Planned: TypeAlias = tuple[ReportFigure, Callable[[], None]]  # a figure, and what draws and writes it


def planned_figures(collection: Collection, folder: Path) -> list[Planned]:
    """The figures of these results, in the order in which they are shown."""

    def plan(
        name: str, draw: Callable[[Theme], Figure], caption: str, of: str = "", kind: str = ""
    ) -> Planned:
        figure = ReportFigure(path=folder / f"{name}.svg", kind=kind, of=of, caption=caption)
        return figure, partial(write_figure, figure.path, draw)

    def rows(chart: Callable[[Theme], RowChart]) -> tuple[Callable[[Theme], Figure], str]:
        return lambda theme: draw_rows(chart(theme), theme), chart(LIGHT).caption

    def single(kind: str, one: ReportedComparison, draw: Callable[[Theme], Figure], caption: str) -> Planned:
        return plan(f"{kind}-{one.anchor}", draw, caption, one.title, kind)

    pages = comparisons.cut_into_pages(collection.panels)
    traded = trade_off.choose(collection.controlled)
    followed = [one for one in collection.controlled if one.convergence]
    of_pages = [
        plan(numbered(kind, number), *rows(partial(chart, page)), kind=kind)
        for kind, chart in OF_PAGES.items()
        for number, page in enumerate(pages[:MOST], 1)
    ]
    of_one = [
        *(single("trade-off", one, partial(trade_off.draw, one), trade_off.CAPTION) for one in traded),
        *(
            single("breakdown", one, *rows(partial(breakdown_of, one)))
            for one in _profiled(collection)[-MOST:]
        ),
        *(single("converge", one, partial(draw_convergence, one), CAPTION) for one in followed),
    ]
    of_settings = [
        plan(
            numbered(UNCONTROLLED, number),
            *rows(partial(waterfall.fairness_chart, *item)),
            item[0],
            UNCONTROLLED,
        )
        for number, item in enumerate(collection.fairness.items(), 1)
    ]
    return [*of_pages, *of_one, *of_settings]


def not_drawn(collection: Collection) -> list[str]:
    """A sentence for each figure that does not show all comparisons."""
    pages, total = comparisons.cut_into_pages(collection.panels), len(collection.controlled)
    count = sum(len(comparisons.comparisons_of(page)) for page in pages[:MOST])
    first = [f"{name}: drawn for the first {count} of {total} comparisons" for name in OF_PAGES]
    profiled = len(_profiled(collection))
    last = f"breakdown: drawn for the comparisons measured last, {MOST} of {profiled}"
    return first * (count < total) + [last] * (profiled > MOST)


def _profiled(collection: Collection) -> list[ReportedComparison]:
    """The comparisons that say where a step's time goes, those measured last at the end."""
    profiled = [one for one in collection.controlled if one.others and base_seconds(one)]
    return sorted(profiled, key=lambda comparison: comparison.measured_at)
