"""Which figures a report has, and how each is written."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from bench.report.content.collection import Collection, ReportedComparison
from bench.report.content.pictures import MORE, ReportFigure, numbered
from bench.report.figures import comparisons
from bench.report.figures.comparisons import Page
from bench.report.figures.convergence import CAPTION, draw_convergence
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import RowChart, draw_rows
from bench.report.figures.trade_off import CAPTION as CAPTION_OF_BOTH
from bench.report.figures.trade_off import choose, draw_trade_off
from bench.study import find_chart, list_figures

Planned = tuple[ReportFigure, Callable[[], None]]  # a figure, and what draws and writes it


def planned_figures(collection: Collection, folder: Path) -> list[Planned]:
    """The figures of these results, in the order in which they are shown."""

    def plan(name: str, kind: str, draw: Callable[[], Figure], caption: str, of: str = "") -> Planned:
        section = find_chart(kind).CAPTION if kind in list_figures() else MORE
        path = folder / f"{name}.svg"
        figure = ReportFigure(path=path, kind=kind, of=of, caption=caption, section=section)
        return figure, partial(write_figure, figure.path, draw)

    shown = Collection(comparisons=[one for one in collection.controlled if _is_timed(one)]).panels
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
    planned = []
    for kind, (panels, make) in charts.items():
        for number, page in enumerate(comparisons.cut_into_pages(panels), 1):
            rows = make(page)
            planned.append(plan(numbered(kind, number), kind, partial(draw_rows, rows), rows.caption))
    planned += [
        plan(f"trade-off-{one.anchor}", "trade-off", partial(draw_trade_off, one), CAPTION_OF_BOTH, one.title)
        for one in choose(collection.controlled)
    ]
    return planned + [
        plan(f"converge-{one.anchor}", "converge", partial(draw_convergence, one), CAPTION, one.title)
        for one in collection.controlled
        if one.convergence
    ]


def _is_timed(comparison: ReportedComparison) -> bool:
    """Whether it was not about parity alone."""
    return {summary.status for summary in comparison.summaries} != {"untimed"}
