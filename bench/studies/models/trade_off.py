"""The figure of speed-up against peak memory, a point for each backend of one comparison."""

from collections.abc import Iterable

from matplotlib.figure import Figure

from bench.config.choices import DEFAULT_BACKENDS
from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.rows import ends_of
from bench.statistics.summary import BackendSummary

MOST = 8  # backends that markers can distinguish

CAPTION = (
    "Each point is a backend: up is faster, left needs less memory. Whiskers: 95 % interval of the speed-up. "
    "Memory: peak of the timed blocks, of the rank or GPU that has most."
)


def choose(comparisons: Iterable[ReportedComparison]) -> list[ReportedComparison]:
    """The comparison with most of the default backends, at least three; of several, that with most in all."""
    several = [
        one
        for one in comparisons
        if 3 <= len(_points(one)) <= MOST and not (one.at_largest or one.uncontrolled)
    ]
    several.sort(
        key=lambda one: (-len({*DEFAULT_BACKENDS} & {*_points(one)}), -len(_points(one)), len(one.stem))
    )
    return several[:1]


def _points(comparison: ReportedComparison) -> dict[str, BackendSummary]:
    """The backends that have both figures."""
    return {
        each.backend: each
        for each in comparison.summaries
        if each.status == "ok" and each.peak_mib and (each.speedup or each.is_reference)
    }


def draw_trade_off(comparison: ReportedComparison) -> Figure:
    """Speed-up over the reference against the peak in MiB."""
    points = _points(comparison)
    looks = style.markers_of(points)
    legend = [style.mark_entry(name, look) for name, look in looks.items()]
    title = f"Speed-up against peak memory: {comparison.model}, {comparison.hardware}"
    figure = style.titled_figure(title, (style.WIDTH, 3), legend)
    axes = figure.subplots()
    axes.set(
        xlabel="peak memory per rank or GPU (MiB, lower is better)",
        ylabel=f"speed-up over {comparison.reference} (higher is better)",
    )
    axes.grid()
    axes.axhline(1, color=style.FAINT, linewidth=0.7)
    for name, each in points.items():
        ratio = each.speedup.ratio if each.speedup else 1.0
        low, high = (each.speedup and ends_of(each.speedup)) or (ratio, ratio)
        peak = each.peak_mib or 0.0
        axes.plot([peak, peak], [low, high], color=style.INK, linewidth=0.8)
        axes.plot(peak, ratio, **looks[name] | {"markersize": 7, "zorder": 5})
    return figure
