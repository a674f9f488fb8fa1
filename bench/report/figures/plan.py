"""Which figures a report has, and how each is written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from bench.report.collection import Collection, ReportedComparison
from bench.report.figures import waterfall
from bench.report.figures.beginning import draw_beginning
from bench.report.figures.break_even import draw_break_even
from bench.report.figures.breakdown import draw_breakdown
from bench.report.figures.convergence import draw_convergence
from bench.report.figures.memory import draw_memory
from bench.report.figures.pages import Page, comparisons_of, cut_into_pages
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rounds import draw_rounds
from bench.report.figures.speedup import draw_speedup
from bench.report.index_contents import ReportFigure

MOST_PAGES = {"speedup": 8, "memory": 4, "break-even": 4, "rounds": 4}
"""Pages of a figure at most: more take minutes to draw, and the sortable tables hold all of it."""

MOST_BREAKDOWNS = 12
"""Figures of where time goes at most; of those measured last."""

MOST_WATERFALLS = 6
"""Figures of attributions at most."""

MOST_BEGINNINGS = 6
"""Figures of what backends take to begin at most."""

MOST_CONVERGENCES = 6
"""Figures of the way to a target at most."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A figure that is to be drawn.

    Attributes:
        name: of its file, without the ending.
        kind: what it shows, of `bench.report.index_contents.CAPTIONS`.
        of: of what, in words; empty for all comparisons.
        draw: draws it.
    """

    name: str
    kind: str
    of: str = ""
    draw: Callable[[], Figure]


def planned_figures(collection: Collection) -> list[Job]:
    """The figures of these results, in the order in which they are shown."""
    pages = cut_into_pages(collection.panels)
    jobs = _pages("speedup", draw_speedup, pages)
    jobs += [_of_one("breakdown", one, draw_breakdown) for one in _explained_last(collection)]
    of_devices = [one for one in collection.controlled if one.is_of_devices]
    jobs += [_of_one("beginning", one, draw_beginning) for one in of_devices[:MOST_BEGINNINGS]]
    followed = [one for one in collection.controlled if one.convergence]
    jobs += [_of_one("converge", one, draw_convergence) for one in followed[:MOST_CONVERGENCES]]
    divided = [one for one in collection.controlled if one.attribution]
    jobs += [_of_one("attribution", one, waterfall.draw_attribution) for one in divided[:MOST_WATERFALLS]]
    jobs += [
        _numbered("fairness", number, partial(waterfall.draw_fairness, label, fairness), of=label)
        for number, (label, fairness) in enumerate(collection.fairness.items(), 1)
    ]
    for name, draw in (("memory", draw_memory), ("break-even", draw_break_even), ("rounds", draw_rounds)):
        jobs += _pages(name, draw, pages)
    return jobs


def not_drawn(collection: Collection) -> list[str]:
    """A sentence for each figure that does not show all comparisons."""
    pages = cut_into_pages(collection.panels)
    sentences = []
    for name, most in MOST_PAGES.items():
        if len(pages) > most:
            shown = sum(len(comparisons_of(page)) for page in pages[:most])
            total = len(collection.controlled)
            sentences.append(f"{name}: drawn for the first {shown} of {total} comparisons")
    explained = sum(bool(one.breakdowns) for one in collection.controlled)
    if explained > MOST_BREAKDOWNS:
        sentences.append(
            "where a step's time goes: drawn for the comparisons measured last, "
            f"{MOST_BREAKDOWNS} of {explained}"
        )
    followed = sum(one.convergence is not None for one in collection.controlled)
    if followed > MOST_CONVERGENCES:
        sentences.append(
            f"time to the target: drawn for the first {MOST_CONVERGENCES} of {followed} comparisons"
        )
    divided = sum(one.attribution is not None for one in collection.controlled)
    if divided > MOST_WATERFALLS:
        sentences.append(f"attribution: drawn for the first {MOST_WATERFALLS} of {divided} comparisons")
    return sentences


def _explained_last(collection: Collection) -> list[ReportedComparison]:
    """Of the comparisons with profiles those measured last, in the order of the page."""
    explained = [one for one in collection.controlled if one.breakdowns]
    newest_first = sorted(explained, key=lambda one: one.measured_at, reverse=True)
    kept = {one.anchor for one in newest_first[:MOST_BREAKDOWNS]}
    return [one for one in explained if one.anchor in kept]


def save(job: Job, folder: Path) -> ReportFigure:
    """Draw a figure and write it as SVG."""
    path = folder / f"{job.name}.svg"
    write_figure(path, lambda _: job.draw())
    return ReportFigure(path=path, kind=job.kind, of=job.of)


def _of_one(kind: str, one: ReportedComparison, draw: Callable[[ReportedComparison], Figure]) -> Job:
    return Job(name=f"{kind}-{one.anchor}", kind=kind, of=one.title, draw=partial(draw, one))


def _pages(name: str, draw: Callable[[Page], Figure], pages: Sequence[Page]) -> list[Job]:
    shown = enumerate(pages[: MOST_PAGES[name]], 1)
    return [_numbered(name, number, partial(draw, page)) for number, page in shown]


def _numbered(kind: str, number: int, draw: Callable[[], Figure], of: str = "") -> Job:
    return Job(name=kind if number == 1 else f"{kind}-{number}", kind=kind, of=of, draw=draw)
