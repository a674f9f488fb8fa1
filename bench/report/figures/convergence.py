"""The figure of the way to a target: held-out loss against seconds, thin for launches, thick for all."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.analysis.convergence import BackendConvergence, Course
from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.sheet import MARGIN, REPORT_WIDTH, Mark, Sheet, Swatch
from bench.report.figures.style import Theme
from bench.statistics.intervals import Floats

LEFT, HIGH, BELOW = 0.5, 3.0, 0.42
"""Inches beside the axes, of the axes, and below them."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers of the backends in their order, for readers who do not see colours."""


def draw_convergence(one: ReportedComparison, theme: Theme) -> Figure:
    """The loss on held-out data over the seconds of the timed blocks, down to the target and beyond."""
    convergence = one.convergence
    assert convergence is not None, "only comparisons that were followed have this figure"
    sheet = Sheet(REPORT_WIDTH, theme)
    sheet.title(f"{one.model}: held-out loss against time", f"{one.workload}; {one.hardware}")
    marks = {
        backend.backend: {
            "marker": MARKERS[place % len(MARKERS)],
            "color": style.look(backend.backend)[0],
            "mec": style.EDGE,
            "mew": 0.4,
            "markersize": 3.4,
        }
        for place, backend in enumerate(convergence.backends)
        if backend.courses
    }
    sheet.legend([Swatch(words=name, mark=mark) for name, mark in marks.items()])
    axes = sheet.axes(
        LEFT,
        sheet.width - LEFT - 2 * MARGIN,
        HIGH,
        down=0.1,
        xlabel="seconds of training (less is better)",
        ylabel="loss on held-out data",
    )
    for place, backend in enumerate(convergence.backends):
        if backend.courses:
            _draw_backend(axes, backend, marks[backend.backend], order=len(convergence.backends) - place)
    axes.axhline(convergence.target, color=theme.status, linestyle="--", linewidth=1, zorder=2)
    axes.set_xlim(left=0)
    axes.grid(axis="y", color=theme.grid, linewidth=0.6)
    sheet.y += HIGH + BELOW
    sheet.caption(
        "Thin lines: launches, each of which is a seed. Thick lines: medians over launches, of seconds and "
        "of losses. Seconds are those of the timed blocks, without set-up, first step and warm-up. Dashed: "
        "the target."
    )
    return sheet.finish()


def _draw_backend(axes: Axes, backend: BackendConvergence, mark: Mark, *, order: int) -> None:
    """The reference lies on top: it may be hidden otherwise where all are alike."""
    for course in backend.courses:
        thin = {"color": mark["color"], "alpha": 0.35, "linewidth": 0.7, "zorder": 2 + order}
        axes.plot(course.seconds, course.losses, **thin)
    seconds, losses = _medians(backend.courses)
    axes.plot(seconds, losses, linewidth=2, label=backend.backend, zorder=10 + order, **mark)


def _medians(courses: Sequence[Course]) -> tuple[Floats, Floats]:
    """Seconds and losses at each evaluation that all launches have, shape (evaluations,)."""
    fewest = min(len(course.seconds) for course in courses)
    seconds = np.median([course.seconds[:fewest] for course in courses], axis=0)
    losses = np.median([course.losses[:fewest] for course in courses], axis=0)
    return seconds, losses
