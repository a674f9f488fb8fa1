"""The figure of the way to a target: held-out loss against seconds, thin for launches, thick for all."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.analysis.convergence import BackendConvergence
from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.sheet import MARGIN, REPORT_WIDTH, Sheet, mark_entry
from bench.report.figures.style import Theme

LEFT, HIGH, BELOW = 0.5, 3.0, 0.42  # inches beside the axes, of the axes, and below them
MARKERS = "os^DvPX"  # markers of the backends in their order, for readers who do not see colours


def draw_convergence(comparison: ReportedComparison, theme: Theme) -> Figure:
    """The loss on held-out data over the seconds of the timed blocks, down to the target and beyond."""
    convergence = comparison.convergence
    assert convergence is not None, "only comparisons that were followed have this figure"
    sheet = Sheet(REPORT_WIDTH, theme)
    sheet.title(
        f"{comparison.model}: held-out loss against time", f"{comparison.workload}; {comparison.hardware}"
    )
    followed = [backend for backend in convergence.backends if backend.courses]
    looks: dict[str, dict[str, Any]] = {
        backend.backend: {
            "marker": MARKERS[place % len(MARKERS)],
            "color": style.look(backend.backend)[0],
            "mec": style.EDGE,
            "mew": 0.4,
            "markersize": 3.4,
        }
        for place, backend in enumerate(followed)
    }
    sheet.legend([mark_entry(name, look) for name, look in looks.items()])
    wide = sheet.width - LEFT - 2 * MARGIN
    axes = sheet.axes(LEFT, sheet.y + 0.1, wide, HIGH, xlabel="seconds of training (less is better)")
    axes.set_ylabel("loss on held-out data")
    for place, backend in enumerate(reversed(followed)):  # the reference lies on top: all may be alike
        _draw_backend(axes, backend, looks[backend.backend], order=place)
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


def _draw_backend(axes: Axes, backend: BackendConvergence, look: dict[str, Any], *, order: int) -> None:
    """A thin line for each launch, a thick one for the medians at each evaluation that all launches have."""
    for course in backend.courses:
        thin = {"color": look["color"], "alpha": 0.35, "linewidth": 0.7, "zorder": 2 + order}
        axes.plot(course.seconds, course.losses, **thin)
    fewest = min(len(course.seconds) for course in backend.courses)
    seconds = np.median([course.seconds[:fewest] for course in backend.courses], axis=0)
    losses = np.median([course.losses[:fewest] for course in backend.courses], axis=0)
    axes.plot(seconds, losses, linewidth=2, label=backend.backend, zorder=10 + order, **look)
