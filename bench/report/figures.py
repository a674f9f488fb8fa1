"""The figures over all comparisons, as SVG. With `chart` and `waterfall` the only user of matplotlib."""

import io
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench import reference
from bench.records import write_atomically
from bench.report import chart, style, text, waterfall
from bench.report.chart import Group, Panel, Row
from bench.report.collection import Collection, Comparison
from bench.stats import BackendSummary, log_ratios, mib, step_milliseconds

ROWS_PER_PAGE = 48
"""A figure with more is continued on another."""

ROWS_WITH_POINTS = 24
"""On a page with more, single rounds would only be noise."""

Page = list[tuple[str, list[Comparison]]]
"""Panels: hardware, and the comparisons on it."""


def save_all(collection: Collection, folder: Path) -> list[Path]:
    """Write every figure; their paths in the order in which they are shown."""
    found: list[tuple[str, Callable[[], Figure]]] = []
    pages = paged(collection.panels)
    for name, make in (("speedup", speedup), ("memory", memory), ("break-even", break_even)):
        found += [(_numbered(name, number), partial(make, page)) for number, page in enumerate(pages, 1)]
    found += [(_numbered("rounds", number), partial(rounds, page)) for number, page in enumerate(pages, 1)]
    for one in collection.controlled:
        if one.attribution:
            found.append((f"attribution-{one.stem}", partial(waterfall.attribution, one, one.attribution)))
    for number, (label, divided) in enumerate(collection.fairness.items(), 1):
        found.append((_numbered("fairness", number), partial(waterfall.fairness, label, divided)))
    return [save(make, folder / f"{name}.svg") for name, make in found]


def save(make: Callable[[], Figure], path: Path) -> Path:
    """Draw a figure and write the file, atomically; the same input gives the same bytes."""
    with rc_context(style.RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script without font
        vector = io.StringIO()
        make().savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
    write_atomically(path, vector.getvalue())
    return path


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def paged(panels: dict[str, list[Comparison]]) -> list[Page]:
    """Cut the panels into pages of at most `ROWS_PER_PAGE` rows; a comparison is never cut."""
    pages: list[Page] = []
    used = ROWS_PER_PAGE
    for hardware, comparisons in panels.items():
        for one in comparisons:
            rows = len(one.summaries)
            if used + rows > ROWS_PER_PAGE:
                pages.append([])
                used = 0
            used += rows
            if not pages[-1] or pages[-1][-1][0] != hardware:
                pages[-1].append((hardware, []))
            pages[-1][-1][1].append(one)
    return pages


def _panels(
    page: Page,
    draw: Callable[[Comparison, BackendSummary, Axes, float], None],
    *,
    with_reference: bool,
    row: float = chart.ROW,
) -> list[Panel]:
    return [
        Panel(
            title=hardware,
            row=row,
            groups=[
                Group(
                    heading=f"{one.model}: {one.workload}",
                    rows=[
                        Row(name=summary.backend, draw=partial(draw, one, summary))
                        for summary in (one.summaries if with_reference else one.others)
                    ],
                )
                for one in comparisons
            ],
        )
        for hardware, comparisons in page
    ]


def _everything(page: Page) -> list[Comparison]:
    return [one for _, comparisons in page for one in comparisons]


# Speed-up


def speedup(page: Page) -> Figure:
    """Bars against the reference at 1.0, with intervals; published figures as marks of another kind."""
    everything = _everything(page)
    references = dict.fromkeys(one.reference for one in everything)
    with_points = sum(len(one.summaries) for one in everything) <= ROWS_WITH_POINTS
    published = {
        (one.model, mark.backend): mark for one in everything for mark in reference.of_model(one.model)
    }
    notes = sorted({other.speedup.note for one in everything for other in one.others if other.speedup} - {""})
    caption = "; ".join(["Whiskers: 95 % interval", *notes]) + "."
    caption += " Points: single rounds." if with_points else ""
    caption += (
        " Grey band: what the blog of January 2023 claims for ONNX Runtime with ZeRO-1 on 8 A100, 39 % to "
        "130 % more."
    )
    if published:
        where = "; ".join(dict.fromkeys(f"{mark.hardware}, {mark.precision}" for mark in published.values()))
        caption += f" Diamonds: published for the same model on other hardware ({where}), not comparable."
    return chart.draw(
        f"Throughput relative to {', '.join(references)}",
        _panels(page, partial(_speedup_row, with_points=with_points), with_reference=False),
        label=f"speed-up over {', '.join(references)} ({text.TIMES}, higher is better)",
        caption=caption,
        decorate=partial(_baseline, limit=_limit(everything)),
    )


def _speedup_row(
    one: Comparison, summary: BackendSummary, axes: Axes, place: float, *, with_points: bool
) -> None:
    mark = next((m for m in reference.of_model(one.model) if m.backend == summary.backend), None)
    if mark is not None:
        axes.scatter(
            [mark.ratio],
            [place],
            s=26,
            marker="D",
            facecolor="white",
            edgecolor=style.INK,
            linewidths=1,
            zorder=8,
        )
        if mark.flag:
            axes.annotate("!", (mark.ratio, place), textcoords="offset points", xytext=(5, -3), fontsize=8)
    speedup = summary.speedup
    if summary.status != "ok" or speedup is None:
        chart.absent(axes, place, summary.status if summary.status != "ok" else summary.message)
        return
    chart.bar(axes, place, speedup.ratio, summary.backend)
    if with_points:
        points = np.exp(log_ratios(one.rows, summary.backend, one.reference)).to_numpy(float)
        offsets = np.linspace(-0.3, 0.3, len(points)) * chart.BAR
        axes.scatter(points, place + offsets, s=6, color=style.INK, alpha=0.3, linewidths=0, zorder=5)
    if speedup.low is not None and speedup.high is not None:
        far = min(speedup.high, 1e6)  # an infinite end would not be drawn at all
        axes.plot([speedup.low, far], [place, place], color=style.INK, linewidth=1.3, zorder=6)
        axes.plot([speedup.low, far], [place, place], "|", color=style.INK, markersize=6, zorder=6)
    chart.inside(axes, place, text.ratio(speedup.ratio), fontweight="bold")
    chart.beside(axes, place, f"{summary.verdict} {text.interval(speedup)}")


def _limit(comparisons: Sequence[Comparison]) -> float:
    """Right end of the axis: the band and all bars, and intervals unless they dwarf them."""
    found = [other.speedup for one in comparisons for other in one.others if other.speedup]
    ratios = [reference.BLOG_BAND[1], *(one.ratio for one in found)]
    ratios += [mark.ratio for one in comparisons for mark in reference.of_model(one.model)]
    ends = [one.high for one in found if one.high]
    return 1.04 * max(max(ratios), min(max(ends, default=0.0), 1.5 * max(ratios)))


def _baseline(axes: Axes, *, limit: float) -> None:
    axes.axvline(1, color=style.INK, linewidth=1, linestyle=(0, (4, 2)), zorder=4)
    axes.axvspan(*reference.BLOG_BAND, color=style.BAND, zorder=0, linewidth=0)
    axes.set_xlim(0, limit)


def _from_zero(axes: Axes, *, most: float) -> None:
    axes.set_xlim(0, most)


# Memory


def memory(page: Page) -> Figure:
    """The peaks of the timed blocks."""
    everything = _everything(page)
    peaks = [_peak(one, other) or 0.0 for one in everything for other in one.summaries]
    return chart.draw(
        "Peak memory",
        _panels(page, _memory_row, with_reference=True),
        label="peak of the timed blocks (MiB, lower is better)",
        caption="On a CPU of the rank that has most, libraries included; on a GPU of the device. In brackets "
        "the optimizer state on each rank.",
        decorate=partial(_from_zero, most=1.04 * max([1.0, *peaks])),
    )


def _memory_row(one: Comparison, summary: BackendSummary, axes: Axes, place: float) -> None:
    peak = _peak(one, summary)
    if peak is None:
        chart.absent(axes, place, summary.status if summary.status != "ok" else "no figure")
        return
    chart.bar(axes, place, peak, summary.backend)
    chart.inside(axes, place, text.number(peak), fontweight="bold")
    if summary.optimizer_state_bytes is not None:
        chart.beside(axes, place, f"({text.number(mib(summary.optimizer_state_bytes))} MiB of state)")


def _peak(one: Comparison, summary: BackendSummary) -> float | None:
    on_cpu = text.distinct(one.rows, "device") == "cpu"
    return summary.host_peak_mib if on_cpu else summary.device_peak_mib


# Break-even


def break_even(page: Page) -> Figure:
    """How many steps pay for a longer set-up."""
    everything = _everything(page)
    steps = [other.break_even_steps or 0 for one in everything for other in one.others]
    return chart.draw(
        "Steps until a faster backend has paid for its set-up",
        _panels(page, _break_even_row, with_reference=False),
        label="break-even (optimizer steps, logarithmic, lower is better)",
        caption="Extra seconds of set-up and first step, over the seconds saved per step. Only what is "
        "faster pays back at all.",
        decorate=partial(_logarithmic, most=max([10.0, *map(float, steps)])),
    )


def _break_even_row(one: Comparison, summary: BackendSummary, axes: Axes, place: float) -> None:  # noqa: ARG001
    steps = summary.break_even_steps
    if steps is None:
        words = summary.status if summary.status != "ok" else f"never: {summary.verdict or 'no speed-up'}"
        chart.absent(axes, place, words)
        return
    chart.bar(axes, place, max(1.0, steps), summary.backend)
    chart.inside(axes, place, f"{steps:,}", fontweight="bold")


def _logarithmic(axes: Axes, *, most: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(1, 2 * most)


# Step time over rounds

SWING = 0.25
"""A row's height is this share above and below the median; what lies beyond is drawn at its edge."""

TALL = 0.62
"""Inches of a row of points."""


def rounds(page: Page) -> Figure:
    """Every valid block's time per step, in the order of the rounds: the raw points."""
    blocks = [len(_times(one, other)) for one in _everything(page) for other in one.summaries]
    return chart.draw(
        "Step time in every round",
        _panels(page, _rounds_row, with_reference=True, row=TALL),
        label="blocks in the order in which they were timed (rounds of all launches)",
        caption="Height: seconds per step against the backend's median (to the right), slower is up; a row "
        f"spans ± {SWING:.0%}, triangles lie beyond. Vertical lines: a new launch.",
        decorate=partial(_from_zero, most=max(blocks, default=0) + 1),
    )


def _times(one: Comparison, summary: BackendSummary) -> pd.DataFrame:
    """Launch and milliseconds per step of a backend's valid blocks, in the order of the rounds."""
    rows = one.rows
    blocks = rows[(rows["backend"] == summary.backend) & (rows["status"] == "ok")]
    blocks = blocks.sort_values(["launch", "round"], kind="stable")
    return pd.DataFrame({"launch": blocks["launch"], "ms": step_milliseconds(blocks)})


def _rounds_row(one: Comparison, summary: BackendSummary, axes: Axes, place: float) -> None:
    times = _times(one, summary)
    if times.empty:
        chart.absent(axes, place, summary.status)
        return
    ms = times["ms"].to_numpy(float)
    median = float(np.median(ms))
    swing = (ms / median - 1) / SWING
    heights = place - np.clip(swing, -1, 1) * 0.45 * TALL
    numbers = np.arange(1, len(ms) + 1)
    colour, _ = style.look(summary.backend)
    axes.plot([0, len(ms) + 1], [place, place], color=style.GRID, linewidth=0.8, zorder=1)
    starts = numbers[1:][times["launch"].to_numpy()[1:] != times["launch"].to_numpy()[:-1]] - 0.5
    axes.vlines(starts, place - 0.45 * TALL, place + 0.45 * TALL, color=style.GRID, linewidth=0.8, zorder=1)
    look: dict[str, Any] = {
        "color": colour,
        "markeredgecolor": style.INK,
        "markeredgewidth": 0.4,
        "linestyle": "none",
    }
    for marker, chosen in (("o", abs(swing) <= 1), ("^", swing > 1), ("v", swing < -1)):
        axes.plot(numbers[chosen], heights[chosen], marker, markersize=3.6, zorder=3, **look)
    chart.beside(axes, place, f"{median:,.1f} ms")
