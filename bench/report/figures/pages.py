"""Which comparisons stand together on one figure, and under which headings."""

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from bench.report.content.collection import ReportedComparison
from bench.report.figures.rows import Panel, Row, RowGroup
from bench.report.words import describe
from bench.statistics.summary import BackendSummary

ROWS_PER_PAGE = 48
"""A figure that would have more is continued on another page."""

Page: TypeAlias = list[tuple[str, list[ReportedComparison]]]
"""The panels of a figure: headings with their comparisons. Equal and largest batches never share a page."""


def cut_into_pages(panels: dict[str, list[ReportedComparison]]) -> list[Page]:
    """Cut the panels into pages of at most `ROWS_PER_PAGE` rows; a comparison is never cut."""
    pages: list[Page] = []
    used = ROWS_PER_PAGE
    for heading, comparisons in panels.items():
        for comparison in comparisons:
            rows = len(comparison.summaries)
            if (
                used + rows > ROWS_PER_PAGE
                or comparisons_of(pages[-1])[-1].at_largest != comparison.at_largest
            ):
                pages.append([])
                used = 0
            used += rows
            if not pages[-1] or pages[-1][-1][0] != heading:
                pages[-1].append((heading, []))
            pages[-1][-1][1].append(comparison)
    return pages


def row_panels(
    page: Page,
    row: Callable[[ReportedComparison, BackendSummary], Row],
    *,
    relative: bool = False,
    best: Callable[[ReportedComparison], float | None] = lambda _: None,
) -> list[Panel]:
    """The panels of a page, with a row for each backend and a line at `best` across a comparison's rows.

    Where rows are `relative` to the reference it has none; its name is in the headings if there are several.
    """
    several = relative and len({comparison.reference for comparison in comparisons_of(page)}) > 1
    count = Counter(_heading(comparison, several) for comparison in comparisons_of(page))

    def group(one: ReportedComparison) -> RowGroup:
        heading = _heading(one, several, alone=count[_heading(one, several)] == 1)
        rows = [row(one, summary) for summary in (one.others if relative else one.summaries)]
        return RowGroup(heading=heading, rows=rows, best=best(one))

    return [Panel(heading=title, groups=[*map(group, comparisons)]) for title, comparisons in page]


def _heading(one: ReportedComparison, several: bool, *, alone: bool = True) -> str:
    """Model and workload; the reference if there are several; the title if another has the same workload."""
    heading = f"{one.model}: {one.workload}" + (f", over {one.reference}" if several else "")
    if one.at_largest:
        heading += f" ({describe.micro_batches(one.rows)})"
    return heading if alone else f"{heading} ({one.title})"


def comparisons_of(page: Page) -> list[ReportedComparison]:
    """All comparisons of a page."""
    return [comparison for _, comparisons in page for comparison in comparisons]
