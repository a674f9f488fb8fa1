"""Which figures a report has, and how each is written."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.report.content.collection import Collection
from bench.report.content.pictures import CAPTIONS, MORE, Planned, ReportFigure, numbered
from bench.report.figures import comparisons
from bench.report.figures.comparisons import Page
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import RowChart, draw_rows
from bench.study import find_chart, list_figures


def planned_figures(collection: Collection, folder: Path) -> list[Planned]:
    """The figures of these results, in the order in which they are shown."""

    shown = Collection(comparisons=[one for one in collection.controlled if one.is_timed]).panels
    charts: dict[str, tuple[Page, Callable[[Page], RowChart]]] = {
        "speedup": (shown, comparisons.speedup_chart),
        "memory": (shown, comparisons.memory_chart),
    }
    for name in list_figures():
        chart = find_chart(name)
        can_show = {
            key: [each for each in several if each.others and chart.can_show(each)]
            for key, several in shown.items()
        }
        charts[name] = {key: several for key, several in can_show.items() if several}, chart.make_chart
    planned: list[Planned] = []
    for kind, (panels, make) in charts.items():
        title, section = CAPTIONS.get(kind, ""), MORE
        if kind in list_figures():
            title = section = find_chart(kind).CAPTION
        for number, page in enumerate(comparisons.cut_into_pages(panels), 1):
            rows = make(page)
            path = folder / f"{numbered(kind, number)}.svg"
            figure = ReportFigure(path=path, title=title, caption=rows.caption, section=section)
            planned.append((figure, partial(write_figure, path, partial(draw_rows, rows))))
    return planned
