"""Which figures a report has, and how each is written."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from bench.report.content.collection import Collection
from bench.report.content.pictures import CAPTIONS, Planned, ReportFigure, numbered
from bench.report.figures import comparisons
from bench.report.figures.comparisons import Page
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import RowChart, draw_rows
from bench.report.figures.trade_off import CAPTION, choose, draw_trade_off


def planned_figures(collection: Collection, folder: Path) -> list[Planned]:
    """The figures of these results, in the order in which they are shown."""

    def plan(name: str, kind: str, draw: Callable[[], Figure], caption: str, of: str = "") -> Planned:
        figure = ReportFigure(path=folder / f"{name}.svg", title=CAPTIONS[kind], of=of, caption=caption)
        return figure, partial(write_figure, figure.path, draw)

    shown = Collection(comparisons=[one for one in collection.controlled if one.is_timed]).panels
    profiled = {
        heading: known
        for heading, several in shown.items()
        if (known := [one for one in several if one.others and comparisons.base_seconds(one)])
    }
    charts: dict[str, tuple[Page, Callable[[Page], RowChart]]] = {
        "speedup": (shown, comparisons.speedup_chart),
        "memory": (shown, comparisons.memory_chart),
        "breakdown": (profiled, comparisons.breakdown_chart),
    }
    planned = []
    for kind, (panels, make) in charts.items():
        for number, page in enumerate(comparisons.cut_into_pages(panels), 1):
            chart = make(page)
            planned.append(plan(numbered(kind, number), kind, partial(draw_rows, chart), chart.caption))
    planned += [
        plan(f"trade-off-{one.anchor}", "trade-off", partial(draw_trade_off, one), CAPTION, one.title)
        for one in choose(collection.controlled)
    ]
    return planned
