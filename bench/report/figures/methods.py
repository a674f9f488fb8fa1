"""The figure of what each method of training does to speed and to memory."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from bench.analysis.methods import Method, MethodsStudy
from bench.report.figures.rows import Bar, Row, RowChart, RowGroup, draw_rows, ends_of, ratio_limits
from bench.report.figures.sheet import bar_entry, interval_entry
from bench.report.figures.style import Theme
from bench.report.words.formatting import TIMES, ratio

SPEED, MEMORY = ("#0072B2", ""), ("#E69F00", "///")
"""Colours and hatches of the two bars of a method."""

FARTHEST = 3.0
"""Times the baseline's speed or memory, or a part of it: the axis ends there."""


def draw_methods(
    study: MethodsStudy, names: Sequence[str], theme: Theme, *, title: str, subtitle: str, caption: str
) -> Figure:
    """Two bars for each method, under these names; at least one of them was measured."""
    groups = [_group(study, method, name) for method, name in zip(study.methods, names, strict=True)]
    known = [(method.speedup, method.memory_ratio) for method in study.measured]
    values = [value for speed, memory in known if speed and memory for value in (speed.ratio, memory)]
    ends = [end for speed, _ in known if speed for end in ends_of(speed) or ()]
    within = [end for end in ends if 1 / FARTHEST < end < FARTHEST]
    chart = RowChart(
        title=title,
        subtitle=subtitle,
        panels={"": sorted(groups, key=lambda group: group.section == OTHERS)},
        limits=ratio_limits([min(max(value, 1 / FARTHEST), FARTHEST) for value in values], within),
        logarithmic=True,
        label=f"over {study.reference} ({TIMES}, logarithmic)",
        caption=caption,
        legend=[bar_entry("speed", SPEED), bar_entry("peak memory", MEMORY), interval_entry(theme)],
        line=1,
        row=0.11,
        bar=0.1,
    )
    return draw_rows(chart, theme)


UNBEATEN, OTHERS = "not beaten in both", "beaten in both by another method or by the baseline"
"""The headings that divide the methods."""


def _group(study: MethodsStudy, method: Method, name: str) -> RowGroup:
    section = UNBEATEN if method.backend in study.front else OTHERS
    if not (method.speedup and method.memory_ratio):
        reason = method.status if method.status != "ok" else "no speed-up"
        return RowGroup(name=name, section=section, rows=[Row(reason=reason)])
    speed, memory = method.speedup.ratio, method.memory_ratio
    rows = [
        Row(bars=[Bar(1, speed, SPEED)], interval=ends_of(method.speedup), beside=ratio(speed)),
        Row(bars=[Bar(1, memory, MEMORY)], beside=ratio(memory)),
    ]
    return RowGroup(name=name, section=section, rows=rows)
