"""The figure of what each backend takes to begin and to train: time, memory, room on disk, and its speed."""

from collections.abc import Callable

from matplotlib.figure import Figure

from bench.analysis.beginning import Beginning
from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.row_chart import draw_rows
from bench.report.figures.rows import Axis, Bar, Panel, Row, RowChart, RowGroup
from bench.report.figures.style import Theme
from bench.report.words.formatting import number


def draw_beginning(one: ReportedComparison, theme: Theme) -> Figure:
    """Four groups with a bar for each backend; the longest bar of each group has the whole width."""
    speed = {summary.backend: summary.samples_per_s for summary in one.summaries}
    values: dict[str, Callable[[Beginning], float | None]] = {
        "samples/s (more is better)": lambda beginning: speed.get(beginning.backend),
        "seconds until the first step is done": lambda beginning: beginning.first_step_s,
        "peak memory of a rank (MiB)": lambda beginning: beginning.peak,
        "packages and files on disk (MiB)": lambda beginning: beginning.installed + (beginning.loaded or 0.0),
    }
    groups = [
        _group(heading, {beginning.backend: value(beginning) for beginning in one.beginnings})
        for heading, value in values.items()
    ]
    chart = RowChart(
        title=f"{one.model}: what each backend takes to begin and to train",
        subtitle=f"{one.workload}; {one.hardware}",
        panels=[Panel(groups=groups)],
        axis=Axis(low=0, high=1.02),
        label="",
        caption="Set-up and first step without the start of Python, and without what is made beforehand for "
        "a device. Packages are all of which the process uses something. Less is better, but for samples/s.",
    )
    return draw_rows(chart, theme)


def _group(heading: str, values: dict[str, float | None]) -> RowGroup:
    most = max((value for value in values.values() if value is not None), default=1.0)
    rows = [
        Row(name=name, reason="unknown")
        if value is None
        else Row(name=name, bars=[Bar(0, value / most, style.look(name))], beside=number(value))
        for name, value in values.items()
    ]
    return RowGroup(heading=heading, rows=rows)
