"""The figures of a machine's page: the way to the target of each comparison that was followed."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.report.content.collection import ReportedComparison
from bench.report.content.pictures import Planned, ReportFigure
from bench.report.figures.picture_files import write_figure
from bench.studies.converge.figure import CAPTION, draw_convergence
from bench.studies.converge.table import TABLE


def planned_figures(families: Sequence[Sequence[ReportedComparison]], folder: Path) -> list[Planned]:
    """A figure for each comparison that was followed."""
    planned: list[Planned] = []
    for one in [one for family in families for one in family]:
        if TABLE.kind in one.beside and not one.uncontrolled:
            figure = ReportFigure(
                path=folder / f"converge-{one.anchor}.svg",
                title="Held-out loss against time",
                of=one.title,
                caption=CAPTION,
            )
            planned.append((figure, partial(write_figure, figure.path, partial(draw_convergence, one))))
    return planned
