"""The figure of the way to a target: held-out loss against seconds, thin for launches, thick for all."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.analysis.convergence import BackendConvergence, Course
from bench.report.content.collection import ReportedComparison
from bench.report.figures import chart, style
from bench.report.figures.style import LIGHT
from bench.report.figures.titled import titled_axes
from bench.statistics.intervals import Floats

HIGH = 3.0
"""Inches of the axes."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Of the backends in their order, for readers who do not see colours."""


def draw_convergence(one: ReportedComparison) -> Figure:
    """The loss on held-out data over the seconds of the timed blocks, down to the target and beyond."""
    found = one.convergence
    assert found is not None, "only comparisons that were followed have this figure"
    title = f"{one.model}: held-out loss against time"
    figure, axes = titled_axes(
        title,
        f"{one.workload}; {one.hardware}",
        "Thin lines: launches, each of which is a seed. Thick lines: medians over launches, of seconds and "
        "of losses. Seconds are those of the timed blocks, without set-up, first step and warm-up. Dashed: "
        "the target.",
        left=0.7,
        right=0.2,
        inches=HIGH,
    )
    for place, backend in enumerate(found.backends):
        _draw_backend(axes, backend, MARKERS[place % len(MARKERS)], order=len(found.backends) - place)
    axes.axhline(found.target, color=LIGHT.status, linestyle="--", linewidth=1, zorder=2)
    axes.set_xlabel("seconds of training (less is better)", fontsize=8.5)
    axes.set_ylabel("loss on held-out data", fontsize=8.5)
    axes.set_xlim(left=0)
    axes.grid(axis="y", color=LIGHT.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper right", fontsize=8, frameon=False)
    return figure


def _draw_backend(axes: Axes, backend: BackendConvergence, marker: str, *, order: int) -> None:
    """The reference lies on top: it may be hidden otherwise where all are alike."""
    if not backend.courses:
        return
    colour, _ = style.look(backend.backend)
    for course in backend.courses:
        axes.plot(course.seconds, course.losses, color=colour, alpha=0.35, linewidth=0.7, zorder=2 + order)
    seconds, losses = _medians(backend.courses)
    axes.plot(
        seconds,
        losses,
        color=colour,
        linewidth=2,
        marker=marker,
        markersize=4,
        markeredgecolor=style.EDGE,
        markeredgewidth=0.4,
        label=chart.shortened(backend.backend),
        zorder=10 + order,
    )


def _medians(courses: Sequence[Course]) -> tuple[Floats, Floats]:
    """Seconds and losses at each evaluation that all launches have, shape (evaluations,)."""
    fewest = min(len(one.seconds) for one in courses)
    seconds = np.median([one.seconds[:fewest] for one in courses], axis=0)
    losses = np.median([one.losses[:fewest] for one in courses], axis=0)
    return seconds, losses
