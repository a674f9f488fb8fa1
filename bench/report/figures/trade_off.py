"""The figure of speed-up against peak memory, a point for each backend of one comparison."""

from collections.abc import Iterable

from matplotlib.figure import Figure

from bench.config.choices import USUAL_BACKENDS
from bench.report.content.collection import ReportedComparison
from bench.report.content.quantities import MEMORY, SPEEDUP, Ratio
from bench.report.figures.convergence import frame, marks_of
from bench.report.figures.rows import ends_of
from bench.report.figures.style import Theme

MOST = 8  # backends that markers tell apart

CAPTION = (
    "Each point is a backend: up is faster, left needs less memory. Whiskers: 95 % interval of the speed-up. "
    "Memory: peak of the timed blocks over the reference's, of the rank or GPU that has most."
)


def choose(comparisons: Iterable[ReportedComparison]) -> list[ReportedComparison]:
    """The comparison with most usual backends, of as many that with most of all; it has at least three."""
    several = [one for one in comparisons if 3 <= len(_points(one)) <= MOST and not one.at_largest]
    several.sort(
        key=lambda one: (-len({*USUAL_BACKENDS} & {*_points(one)}), -len(_points(one)), len(one.stem))
    )
    return several[:1]


def _points(comparison: ReportedComparison) -> dict[str, tuple[float, Ratio]]:
    """Memory and speed-up over the reference, by backend."""
    points = {comparison.reference: (1.0, Ratio(value=1.0))}
    for other in comparison.others:
        memory, speed = MEMORY.ratio(comparison, other), SPEEDUP.ratio(comparison, other)
        if other.status == "ok" and memory and speed:
            points[other.backend] = memory.value, speed
    return points


def draw(comparison: ReportedComparison, theme: Theme) -> Figure:
    """Draw it in a theme."""
    points, over = _points(comparison), comparison.reference
    looks = marks_of(points)
    sheet, axes = frame("Speed-up against peak memory", comparison, looks, theme)
    axes.set(xlabel=f"peak memory over {over}'s (less is better)", ylabel=f"speed-up over {over}")
    axes.axhline(1, color=theme.faint, linewidth=0.7)
    axes.axvline(1, color=theme.faint, linewidth=0.7)
    for name, (memory, speed) in points.items():
        axes.plot([memory] * 2, ends_of(speed) or [speed.value] * 2, color=theme.ink, linewidth=0.8)
        axes.plot(memory, speed.value, **looks[name] | {"markersize": 7, "zorder": 5})
    return sheet.finish()
