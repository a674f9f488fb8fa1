"""Which figures a report has, and how each is written."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from bench.report.content.collection import Collection, ReportedComparison
from bench.report.content.pictures import ReportFigure
from bench.report.figures import comparisons, waterfall
from bench.report.figures.breakdown_chart import base_seconds, draw_breakdown_of
from bench.report.figures.comparisons import Page
from bench.report.figures.convergence import draw_convergence
from bench.report.figures.picture_files import write_figure
from bench.report.figures.style import Theme

MOST = 8
"""Figures of a kind at most: more take minutes, and the tables hold all of it."""

OF_PAGES: dict[str, Callable[[Page, Theme], Figure]] = {
    "speedup": comparisons.draw_speedup,
    "memory": comparisons.draw_memory,
}
"""Figures of many comparisons."""

OF_ONE: dict[
    str,
    tuple[Callable[[ReportedComparison, Theme], Figure], Callable[[ReportedComparison], object]],
] = {
    "breakdown": (draw_breakdown_of, lambda comparison: comparison.others and base_seconds(comparison)),
    "converge": (draw_convergence, lambda comparison: comparison.convergence),
    "attribution": (waterfall.draw_attribution, lambda comparison: comparison.attribution),
}
"""Figures of one comparison, of those measured last; and what a comparison needs for one."""


@dataclass(frozen=True)
class Job:
    """A figure that is to be drawn."""

    name: str  # of its file, without the ending
    kind: str  # what it shows, of `bench.report.content.pictures.CAPTIONS`
    draw: Callable[[Theme], Figure]
    of: str = ""  # of what, in words; empty for all comparisons


def planned_figures(collection: Collection) -> list[Job]:
    """The figures of these results, in the order in which they are shown."""
    pages = comparisons.cut_into_pages(collection.panels)
    jobs = [
        _numbered(name, number, partial(draw, page))
        for name, draw in OF_PAGES.items()
        for number, page in enumerate(pages[:MOST], 1)
    ]
    jobs += [
        Job(f"{name}-{comparison.anchor}", name, partial(draw, comparison), comparison.title)
        for name, (draw, _) in OF_ONE.items()
        for comparison in _with(name, collection)[-MOST:]
    ]
    return jobs + [
        _numbered("fairness", number, partial(waterfall.draw_fairness, label, fairness), label)
        for number, (label, fairness) in enumerate(collection.fairness.items(), 1)
    ]


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


def save(job: Job, folder: Path) -> ReportFigure:
    """Draw a figure and write it as SVG."""
    path = folder / f"{job.name}.svg"
    write_figure(path, job.draw)
    return ReportFigure(path=path, kind=job.kind, of=job.of)


def _numbered(kind: str, number: int, draw: Callable[[Theme], Figure], of: str = "") -> Job:
    return Job(kind if number == 1 else f"{kind}-{number}", kind, draw, of)
