"""Which figures a report has, and how each is written."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.report.content.collection import Collection
from bench.report.content.pictures import CAPTIONS, Planned, ReportFigure, numbered
from bench.report.figures import comparisons
from bench.report.figures.comparisons import Page
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import RowChart, draw_rows


def planned_figures(collection: Collection, folder: Path) -> list[Planned]:
    """The figures of these results, in the order in which they are shown."""

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
    planned: list[Planned] = []
    for kind, (panels, make) in charts.items():
        for number, page in enumerate(comparisons.cut_into_pages(panels), 1):
            chart = make(page)
            path = folder / f"{numbered(kind, number)}.svg"
            figure = ReportFigure(path=path, title=CAPTIONS[kind], caption=chart.caption)
            planned.append((figure, partial(write_figure, path, partial(draw_rows, chart))))
    return planned
