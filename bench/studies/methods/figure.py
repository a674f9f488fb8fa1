"""The figure of what each method of training does to speed and to memory."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from bench.report.content.collection import ReportedComparison
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import Bar, Row, RowChart, RowGroup, draw_rows, ends_of, ratio_limits
from bench.report.figures.style import bar_entry, interval_entry
from bench.report.words.formatting import TIMES, ratio
from bench.studies.methods.effects import Method, MethodsStudy, find_methods
from bench.studies.methods.pages import figure_stem, figure_title, name_method

SPEED, MEMORY = ("#0072B2", ""), ("#E69F00", "///")

FARTHEST = 3.0  # times the baseline's speed or memory, or a part of it: the axis ends there


def write_methods_figures(comparisons: Sequence[ReportedComparison], folder: Path) -> list[Path]:
    """Draw a figure as SVG for each comparison in which any method was measured; their paths."""
    paths = []
    for comparison in comparisons:
        study = find_methods(comparison)
        if study and study.measured:
            paths.append(folder / f"{figure_stem(comparison)}.svg")
            write_figure(paths[-1], partial(_draw_methods, comparison, study))
    return paths


def _draw_methods(comparison: ReportedComparison, study: MethodsStudy) -> Figure:
    """Two bars for each method."""
    panels: dict[str, list[RowGroup]] = {UNBEATEN: [], OTHERS: []}
    for method in study.methods:
        panels[UNBEATEN if method.summary.backend in study.front else OTHERS].append(_group(method))
    rows = [row for groups in panels.values() for group in groups for row in group.rows]
    values = [bar.end for row in rows for bar in row.bars]
    within = [end for row in rows for end in row.interval or () if 1 / FARTHEST < end < FARTHEST]
    chart = RowChart(
        title=figure_title(comparison),
        panels={heading: groups for heading, groups in panels.items() if groups},
        limits=ratio_limits([min(max(value, 1 / FARTHEST), FARTHEST) for value in values], within),
        logarithmic=True,
        label=f"over {study.base.backend} ({TIMES}, logarithmic)",
        legend=[bar_entry("speed", SPEED), bar_entry("peak memory", MEMORY), interval_entry()],
        line=1,
        row=0.11,
        bar=0.1,
    )
    return draw_rows(chart)


UNBEATEN, OTHERS = "not beaten in both", "beaten in both by another method or by the baseline"


def _group(method: Method) -> RowGroup:
    name = name_method(method)
    speedup, memory = method.summary.speedup, method.memory_ratio
    if not (speedup and memory):
        reason = method.summary.status if method.summary.status != "ok" else "no speed-up"
        return RowGroup(name=name, rows=[Row(reason=reason)])
    rows = [
        Row(bars=[Bar(1, speedup.ratio, SPEED)], interval=ends_of(speedup), beside=ratio(speedup.ratio)),
        Row(bars=[Bar(1, memory, MEMORY)], beside=ratio(memory)),
    ]
    return RowGroup(name=name, rows=rows)
