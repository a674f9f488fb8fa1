"""Which figures a report has, and how each is written."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from matplotlib.figure import Figure

from bench.config.choices import ON_DEVICE
from bench.report.content.collection import Collection, ReportedComparison
from bench.report.content.pictures import ReportFigure
from bench.report.figures import waterfall
from bench.report.figures.beginning import draw_beginning
from bench.report.figures.breakdown_chart import base_seconds, draw_breakdown_of
from bench.report.figures.convergence import draw_convergence
from bench.report.figures.memory import draw_memory
from bench.report.figures.pages import Page, comparisons_of, cut_into_pages
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rounds import draw_rounds
from bench.report.figures.speedup import draw_speedup
from bench.report.figures.style import Theme

OF_PAGES: dict[str, tuple[int, Callable[[Page, Theme], Figure]]] = {
    "speedup": (8, draw_speedup),
    "memory": (4, draw_memory),
    "rounds": (4, draw_rounds),
}
"""Figures of many comparisons, and their pages at most: more take minutes, and the tables hold all of it."""

Draw: TypeAlias = Callable[[ReportedComparison, Theme], Figure]

OF_ONE: dict[str, tuple[int, Draw, Callable[[ReportedComparison], object]]] = {
    "breakdown": (12, draw_breakdown_of, lambda comparison: comparison.others and base_seconds(comparison)),
    "beginning": (6, draw_beginning, lambda one: any(each.engine == ON_DEVICE for each in one.beginnings)),
    "converge": (6, draw_convergence, lambda one: one.convergence),
    "attribution": (6, waterfall.draw_attribution, lambda one: one.attribution),
}
"""Figures of one comparison: how many at most, those measured last; and what a comparison needs for one."""


@dataclass(frozen=True)
class Job:
    """A figure that is to be drawn."""

    name: str  # of its file, without the ending
    kind: str  # what it shows, of `bench.report.content.pictures.CAPTIONS`
    draw: Callable[[Theme], Figure]
    of: str = ""  # of what, in words; empty for all comparisons


def planned_figures(collection: Collection) -> list[Job]:
    """The figures of these results, in the order in which they are shown."""
    pages = cut_into_pages(collection.panels)
    jobs = [
        _numbered(name, number, partial(draw, page))
        for name, (most, draw) in OF_PAGES.items()
        for number, page in enumerate(pages[:most], 1)
    ]
    jobs += [
        Job(f"{name}-{one.anchor}", name, partial(draw, one), one.title)
        for name, (most, draw, _) in OF_ONE.items()
        for one in _with(name, collection)[-most:]
    ]
    return jobs + [
        _numbered("fairness", number, partial(waterfall.draw_fairness, label, fairness), label)
        for number, (label, fairness) in enumerate(collection.fairness.items(), 1)
    ]


def not_drawn(collection: Collection) -> list[str]:
    """A sentence for each figure that does not show all comparisons."""
    pages = cut_into_pages(collection.panels)
    total = len(collection.controlled)
    sentences = [
        f"{name}: drawn for the first {count} of {total} comparisons"
        for name, (most, _) in OF_PAGES.items()
        if (count := sum(len(comparisons_of(page)) for page in pages[:most])) < total
    ]
    return sentences + [
        f"{name}: drawn for the comparisons measured last, {most} of {count}"
        for name, (most, _, _) in OF_ONE.items()
        if (count := len(_with(name, collection))) > most
    ]


def _with(name: str, collection: Collection) -> list[ReportedComparison]:
    """The comparisons that have what a figure of `OF_ONE` shows, those measured last at the end."""
    _, _, has_it = OF_ONE[name]
    return sorted(filter(has_it, collection.controlled), key=lambda one: one.measured_at)


def save(job: Job, folder: Path) -> ReportFigure:
    """Draw a figure and write it as SVG."""
    path = folder / f"{job.name}.svg"
    write_figure(path, job.draw)
    return ReportFigure(path=path, kind=job.kind, of=job.of)


def _numbered(kind: str, number: int, draw: Callable[[Theme], Figure], of: str = "") -> Job:
    return Job(kind if number == 1 else f"{kind}-{number}", kind, draw, of)
