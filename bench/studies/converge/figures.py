"""The figures of a machine's page: held-out loss against seconds, of each comparison that was followed."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.content.collection import ReportedComparison
from bench.report.content.pictures import Planned, ReportFigure
from bench.report.figures import style
from bench.report.figures.picture_files import write_figure
from bench.studies.converge.convergence import BackendConvergence
from bench.studies.converge.section import convergence_of
from bench.studies.converge.table import TABLE

CAPTION = (
    "Thin lines: launches, each of which is a seed. Thick lines: medians over launches. Seconds are those of "
    "the timed blocks. Dashed: the target. The loss before the first step lies above the axis."
)


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


def draw_convergence(comparison: ReportedComparison) -> Figure:
    """The loss on held-out data over the seconds of the timed blocks, down to the target and beyond."""
    convergence = convergence_of(comparison)
    assert convergence is not None, "only comparisons that were followed have this figure"
    followed = [backend for backend in convergence.backends if backend.courses]
    looks = style.markers_of(each.backend for each in followed)
    legend = [style.mark_entry(name, look) for name, look in looks.items()]
    title = f"Held-out loss against time: {comparison.model}, {comparison.panel}"
    figure = style.titled_figure(title, (style.WIDTH, 4), legend)
    axes = figure.subplots()
    axes.set(xlabel="seconds of training (less is better)", ylabel="loss on held-out data")
    axes.grid(axis="y")
    for place, backend in enumerate(reversed(followed)):  # the reference lies on top: all may be alike
        _draw_backend(axes, backend, looks[backend.backend], order=place)
    axes.axhline(convergence.target, color=style.STATUS, linestyle="--", linewidth=1, zorder=2)
    axes.set_xlim(left=0)
    later = [loss for backend in followed for course in backend.courses for loss in course.losses[1:]]
    axes.set_ylim(top=1.02 * max([convergence.target, *later]))  # the crossing is what matters
    return figure


def _draw_backend(axes: Axes, backend: BackendConvergence, look: dict[str, Any], *, order: int) -> None:
    """A thin line for each launch, a thick one for the medians at each evaluation that all launches have."""
    for course in backend.courses:
        thin = {"color": look["color"], "alpha": 0.35, "linewidth": 0.7, "zorder": 2 + order}
        axes.plot(course.seconds, course.losses, **thin)
    fewest = min(len(course.seconds) for course in backend.courses)
    seconds = np.median([course.seconds[:fewest] for course in backend.courses], axis=0)
    losses = np.median([course.losses[:fewest] for course in backend.courses], axis=0)
    axes.plot(seconds, losses, linewidth=2, label=backend.backend, zorder=10 + order, **look)
