"""Which figures a report has, and how each is written."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.report.content.collection import Collection
from bench.report.content.pictures import MORE, Planned, ReportFigure, numbered
from bench.report.figures import comparisons
from bench.report.figures.comparisons import Page
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import RowChart, draw_rows
from bench.study import load_parts


def planned_figures(collection: Collection, folder: Path) -> list[Planned]:
    """The figures of these results, in the order in which they are shown."""
    shown = Collection(comparisons=[one for one in collection.controlled if one.is_timed]).panels
    # by name: what it shows, the section in which it stands, its comparisons, and what makes it
    charts: dict[str, tuple[str, str, Page, Callable[[Page], RowChart]]] = {
        "speedup": ("Speed-up over the reference backend", MORE, shown, comparisons.speedup_chart),
        "memory": ("Peak memory", MORE, shown, comparisons.memory_chart),
    }
    for chart in load_parts("chart").values():
        can_show = {
            key: [each for each in several if each.others and chart.can_show(each)]
            for key, several in shown.items()
        }
        panels = {key: several for key, several in can_show.items() if several}
        charts[chart.NAME] = chart.CAPTION, chart.CAPTION, panels, chart.make_chart
    planned: list[Planned] = []
    for kind, (title, section, panels, make) in charts.items():
        for number, page in enumerate(comparisons.cut_into_pages(panels), 1):
            rows = make(page)
            path = folder / f"{numbered(kind, number)}.svg"
            figure = ReportFigure(path=path, title=title, caption=rows.caption, section=section)
            planned.append((figure, partial(write_figure, path, partial(draw_rows, rows))))
    return planned
