"""The figure of the way to a target: held-out loss against seconds, thin for launches, thick for all."""

from collections.abc import Iterable
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
MARKERS = "os^DvPXh"  # markers of the backends in their order, for readers who do not see colours


def marks_of(backends: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Marker and colour of each backend, as `Axes.plot` takes them."""
    rim = {"mec": style.EDGE, "mew": 0.4, "markersize": 3.4}
    return {
        name: {"marker": MARKERS[place % len(MARKERS)], "color": colour, **rim}
        for place, (name, (colour, _)) in enumerate(style.looks(backends).items())
    }


def frame(
    title: str, comparison: ReportedComparison, looks: dict[str, dict[str, Any]], theme: Theme
) -> tuple[Sheet, Axes]:
    """A sheet with a title, a legend of these backends and axes; nothing is to be added below."""
    sheet = Sheet(REPORT_WIDTH, theme)
    sheet.title(title, f"{comparison.model}, {comparison.panel}")
    sheet.legend([mark_entry(name, look) for name, look in looks.items()])
    axes = sheet.axes(LEFT, sheet.y + 0.1, sheet.width - LEFT - 2 * MARGIN, HIGH)
    axes.grid(axis="y", color=theme.grid, linewidth=0.6)
    sheet.y += HIGH + BELOW
    return sheet, axes


CAPTION = (
    "Thin lines: launches, each of which is a seed. Thick lines: medians over launches. Seconds are those of "
    "the timed blocks. Dashed: the target. The loss before the first step lies above the axis."
)


def draw_convergence(comparison: ReportedComparison, theme: Theme) -> Figure:
    """The loss on held-out data over the seconds of the timed blocks, down to the target and beyond."""
    convergence = comparison.convergence
    assert convergence is not None, "only comparisons that were followed have this figure"
    followed = [backend for backend in convergence.backends if backend.courses]
    looks = marks_of(backend.backend for backend in followed)
    sheet, axes = frame("Held-out loss against time", comparison, looks, theme)
    axes.set(xlabel="seconds of training (less is better)", ylabel="loss on held-out data")
    for place, backend in enumerate(reversed(followed)):  # the reference lies on top: all may be alike
        _draw_backend(axes, backend, looks[backend.backend], order=place)
    axes.axhline(convergence.target, color=theme.status, linestyle="--", linewidth=1, zorder=2)
    axes.set_xlim(left=0)
    later = [loss for backend in followed for course in backend.courses for loss in course.losses[1:]]
    axes.set_ylim(top=1.02 * max([convergence.target, *later]))  # the crossing is what matters
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
