"""The figures over all comparisons. With `chart` and `waterfall` the only user of matplotlib."""

import io
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.analysis import reference
from bench.analysis.summary import BackendSummary
from bench.report import chart, style, text, waterfall
from bench.report.chart import Dots, Group, Panel, Row
from bench.report.collection import Collection, Comparison
from bench.results.arithmetic import step_milliseconds
from bench.results.atomic import write_atomically
from bench.results.column_arrays import ColumnArrays

ROWS_PER_PAGE = 48
"""A figure with more is continued on another."""

ROWS_WITH_POINTS = 24
"""On a page with more, single rounds would only be noise."""

MOST_PAGES = {"speedup": 8, "memory": 4, "break-even": 4, "rounds": 4}
"""With more, nobody looks, and it takes minutes to draw: the tables hold all of it, sortable."""

MOST_WATERFALLS = 6

Page = list[tuple[str, list[Comparison]]]
"""Panels: a heading, and its comparisons; none at equal batch beside any at the largest."""

Job = tuple[str, Callable[[], Figure]]
"""A figure's name, and what draws it."""


def planned(collection: Collection) -> list[Job]:
    """The figures of these results, in the order in which they are shown."""
    pages = paged(collection.panels)
    jobs = _pages("speedup", speedup, pages)
    divided = [one for one in collection.controlled if one.attribution]
    jobs += [
        (f"attribution-{one.stem}", partial(waterfall.attribution, one)) for one in divided[:MOST_WATERFALLS]
    ]
    jobs += [
        (_numbered("fairness", number), partial(waterfall.fairness, label, found))
        for number, (label, found) in enumerate(collection.fairness.items(), 1)
    ]
    for name, make in (("memory", memory), ("break-even", break_even), ("rounds", rounds)):
        jobs += _pages(name, make, pages)
    return jobs


def not_drawn(collection: Collection) -> list[str]:
    """What there was too much of, a sentence for each."""
    pages = paged(collection.panels)
    found = []
    for name, most in MOST_PAGES.items():
        shown = sum(len(_everything(page)) for page in pages[:most])
        if len(pages) > most:
            found.append(f"{name}: drawn for the first {shown} of {len(collection.controlled)} comparisons")
    divided = sum(one.attribution is not None for one in collection.controlled)
    if divided > MOST_WATERFALLS:
        found.append(f"attribution: drawn for the first {MOST_WATERFALLS} of {divided} comparisons")
    return found


def _pages(name: str, make: Callable[[Page], Figure], pages: Sequence[Page]) -> list[Job]:
    shown = enumerate(pages[: MOST_PAGES[name]], 1)
    return [(_numbered(name, number), partial(make, page)) for number, page in shown]


def save(job: Job, folder: Path) -> Path:
    """Draw a figure and write it as SVG, atomically; the same input gives the same bytes."""
    name, make = job
    with rc_context(style.RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script without font
        vector = io.StringIO()
        make().savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
    path = folder / f"{name}.svg"
    write_atomically(path, vector.getvalue())
    return path


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def paged(panels: dict[str, list[Comparison]]) -> list[Page]:
    """Cut the panels into pages of at most `ROWS_PER_PAGE` rows; a comparison is never cut."""
    pages: list[Page] = []
    used = ROWS_PER_PAGE
    for heading, comparisons in panels.items():
        for one in comparisons:
            rows = len(one.summaries)
            if used + rows > ROWS_PER_PAGE or _everything(pages[-1])[-1].at_largest != one.at_largest:
                pages.append([])
                used = 0
            used += rows
            if not pages[-1] or pages[-1][-1][0] != heading:
                pages[-1].append((heading, []))
            pages[-1][-1][1].append(one)
    return pages


def _panels(
    page: Page,
    row: Callable[[Comparison, BackendSummary], Row],
    *,
    with_reference: bool,
    relative: bool = False,
    inches: float = chart.ROW,
) -> list[Panel]:
    several = relative and len({one.reference for one in _everything(page)}) > 1
    named = Counter(_heading(one, several) for one in _everything(page))
    return [
        Panel(
            title=title,
            row=inches,
            groups=[
                Group(
                    heading=_heading(one, several, alone=named[_heading(one, several)] == 1),
                    rows=[row(one, mine) for mine in (one.summaries if with_reference else one.others)],
                )
                for one in comparisons
            ],
        )
        for title, comparisons in page
    ]


def _heading(one: Comparison, several: bool, *, alone: bool = True) -> str:
    """Model and workload; the reference if there are several; the file if another has the same workload."""
    heading = f"{one.model}: {one.workload}" + (f", over {one.reference}" if several else "")
    if one.at_largest:
        heading += f" ({text.largest_batches(one.rows)})"
    return heading if alone else f"{heading} ({one.stem})"


def _everything(page: Page) -> list[Comparison]:
    return [one for _, comparisons in page for one in comparisons]


def _from_zero(axes: Axes, *, most: float) -> None:
    axes.set_xlim(0, most)


# Speed-up


def speedup(page: Page) -> Figure:
    """Bars against the reference at 1.0, with intervals; published figures as marks of another kind."""
    everything = _everything(page)
    references = ", ".join(dict.fromkeys(one.reference for one in everything))
    with_points = sum(len(one.summaries) for one in everything) <= ROWS_WITH_POINTS
    others = [(one, other) for one in everything for other in one.others]
    at_largest = everything[0].at_largest
    published = [mark for one, other in others if (mark := _published(one, other))]
    notes = sorted({other.speedup.note for _, other in others if other.speedup} - {""})
    caption = "; ".join(["Whiskers: 95 % interval", *notes]) + "."
    caption += " Points: single rounds." if with_points else ""
    if not at_largest:
        caption += (
            " Grey band: what the blog of January 2023 claims for ONNX Runtime with ZeRO-1 on 8 A100, 39 % "
            "to 130 % more."
        )
    if published:
        where = "; ".join(
            dict.fromkeys(
                f"{mark.hardware}, {mark.precision or 'precision not stated'}" for mark in published
            )
        )
        caption += f" Diamonds: published for the same model on other hardware ({where}), not comparable."
    flags = dict.fromkeys(mark.flag for mark in published if mark.flag)
    caption += "".join(f" Flagged: {reference.FLAGS[flag]}." for flag in flags)
    return chart.draw(
        f"Throughput relative to {references}, "
        + ("each backend at its largest batch" if at_largest else "all backends at the same batch"),
        _panels(page, partial(_speedup_row, with_points=with_points), with_reference=False, relative=True),
        label=f"speed-up over {references} ({text.TIMES}, higher is better)",
        caption=caption,
        decorate=partial(_baseline, limit=_limit(everything), band=not at_largest),
    )


def _published(one: Comparison, summary: BackendSummary) -> reference.Published | None:
    """Of a figure at equal batch one at equal batch, of one at the largest one at the largest."""
    return next((mark for mark in _of_model(one) if mark.backend == summary.backend), None)


def _of_model(one: Comparison) -> list[reference.Published]:
    return [
        mark
        for mark in reference.of_model(one.model)
        if (mark.flag == reference.AT_LARGEST) == one.at_largest
    ]


def _speedup_row(one: Comparison, summary: BackendSummary, *, with_points: bool) -> Row:
    dots = []
    if mark := _published(one, summary):
        dots.append(Dots(kind="published", along=np.array([mark.ratio]), down=np.zeros(1)))
    speedup = summary.speedup
    if summary.status != "ok" or speedup is None:
        reason = summary.status if summary.status != "ok" else summary.message
        return Row(name=summary.backend, absent=reason, dots=dots)
    if with_points:
        points = np.exp(np.concatenate([np.array(logs) for logs in summary.log_ratios.values()]))
        down = np.linspace(-0.3 * chart.BAR, 0.3 * chart.BAR, len(points)).astype(np.float64)
        dots.append(Dots(kind="faint", along=points, down=down))
    whisker = None
    if speedup.low is not None and speedup.high is not None:
        whisker = (speedup.low, min(speedup.high, 1e6))  # an infinite end would not be drawn at all
    return Row(
        name=summary.backend,
        bar=speedup.ratio,
        whisker=whisker,
        dots=dots,
        inside=text.ratio(speedup.ratio),
        beside=f"{summary.verdict} {text.interval(speedup)}",
    )


def _limit(comparisons: Sequence[Comparison]) -> float:
    """Right end of the axis: the band and all bars, and intervals unless they dwarf them."""
    found = [other.speedup for one in comparisons for other in one.others if other.speedup]
    ratios = [reference.BLOG_BAND[1], *(one.ratio for one in found)]
    ratios += [mark.ratio for one in comparisons for mark in _of_model(one)]
    ends = [one.high for one in found if one.high]
    return 1.04 * max(max(ratios), min(max(ends, default=0.0), 1.5 * max(ratios)))


def _baseline(axes: Axes, *, limit: float, band: bool) -> None:
    axes.axvline(1, color=style.INK, linewidth=1, linestyle=(0, (4, 2)), zorder=4)
    if band:
        axes.axvspan(*reference.BLOG_BAND, color=style.BAND, zorder=0, linewidth=0)
    axes.set_xlim(0, limit)


# Memory


def memory(page: Page) -> Figure:
    """The peaks of the timed blocks, divided into what the parameters predict and the rest."""
    everything = _everything(page)
    peaks = [one.peak_mib(other) or 0.0 for one in everything for other in one.summaries]
    kinds = {kind for one in everything for other in one.summaries for kind, _ in _stack(other)}
    at_largest = everything[0].at_largest  # each fills what it may, so that less is not better
    return chart.draw(
        "Peak memory at each backend's largest batch" if at_largest else "Peak memory",
        _panels(page, _memory_row, with_reference=True),
        label="peak of the timed blocks per rank or GPU (MiB"
        + ("; all may use the same)" if at_largest else ", lower is better)"),
        caption="The whole bar is measured: on a CPU the rank that has most, on a GPU the device. "
        "Weights, gradients and optimizer states are predicted from the number of parameters (under ZeRO-1 a "
        "rank's share of the states, and a copy of its share of the weights); libraries are measured before "
        "there is a model, and belong to the rest where they were not.",
        decorate=partial(_from_zero, most=1.04 * max([1.0, *peaks])),
        legend={kind: look for kind, look in style.PARTS.items() if kind in kinds},
    )


def _memory_row(one: Comparison, summary: BackendSummary) -> Row:
    peak = one.peak_mib(summary)
    if peak is None:
        return Row(name=summary.backend, absent=summary.status if summary.status != "ok" else "no figure")
    stack = _stack(summary)
    return Row(
        name=summary.backend,
        bar=None if stack else peak,
        stack=stack,
        beside=f"{text.number(peak)} MiB",
    )


def _stack(summary: BackendSummary) -> list[tuple[str, float]]:
    parts = summary.memory_parts
    if parts is None:
        return []
    sizes = (parts.runtime, parts.weights, parts.gradients, parts.optimizer, parts.rest)
    return [(kind, size) for kind, size in zip(style.PARTS, sizes, strict=True) if size is not None]


# Break-even


def break_even(page: Page) -> Figure:
    """How many steps pay for a longer set-up."""
    steps = [other.break_even_steps or 0 for one in _everything(page) for other in one.others]
    return chart.draw(
        "Steps until a faster backend has paid for its set-up",
        _panels(page, _break_even_row, with_reference=False, relative=True),
        label="break-even (optimizer steps, logarithmic, lower is better)",
        caption="Extra seconds of set-up and first step, over the seconds saved per step. Only what is "
        "faster pays back at all.",
        decorate=partial(_logarithmic, most=max([10.0, *map(float, steps)])),
    )


def _break_even_row(one: Comparison, summary: BackendSummary) -> Row:  # noqa: ARG001 - as all rows
    steps = summary.break_even_steps
    if steps is None:
        reason = f"never: {summary.verdict or 'no speed-up'}"
        return Row(name=summary.backend, absent=summary.status if summary.status != "ok" else reason)
    return Row(name=summary.backend, bar=max(1.0, steps), inside=f"{steps:,}")


def _logarithmic(axes: Axes, *, most: float) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda steps, _: f"{steps:,.0f}"))
    axes.set_xlim(1, 2 * most)


# Step time over rounds

SWING = 0.25
"""A row's height is this share above and below the median; what lies beyond is drawn at its edge."""

TALL = 0.62
"""Inches of a row of points."""


def rounds(page: Page) -> Figure:
    """Every valid block's time per step, in the order of the rounds: the raw points."""
    blocks = max(int((one.rows["backend"] == one.reference).sum()) for one in _everything(page))
    return chart.draw(
        "Step time in every round",
        _panels(page, _rounds_row, with_reference=True, inches=TALL),
        label="blocks in the order in which they were timed (rounds of all launches)",
        caption=f"Height: seconds per step against the backend's median (to the right), slower is up; a row "
        f"spans ± {SWING:.0%}, triangles lie beyond. Vertical lines: a new launch.",
        decorate=partial(_block_numbers, most=blocks + 1),
    )


def _block_numbers(axes: Axes, *, most: float) -> None:
    axes.set_xlim(0, most)
    axes.grid(visible=False)  # its lines would look like those of the launches


def _rounds_row(one: Comparison, summary: BackendSummary) -> Row:
    blocks = ColumnArrays(one.rows)
    blocks = blocks.where((blocks["backend"] == summary.backend) & (blocks["status"] == "ok"))
    if not len(blocks):
        return Row(name=summary.backend, absent=summary.status)
    order = np.lexsort((blocks["round"], blocks["launch"]))
    launch, ms = blocks["launch"][order], step_milliseconds(blocks["seconds"], blocks["steps"])[order]
    median = float(np.median(ms))
    swing = (ms / median - 1) / SWING
    numbers = np.arange(1.0, len(ms) + 1)
    down = -np.clip(swing, -1, 1) * 0.45 * TALL
    kinds = {"point": abs(swing) <= 1, "above": swing > 1, "below": swing < -1}
    return Row(
        name=summary.backend,
        dots=[
            Dots(kind=kind, along=numbers[chosen], down=down[chosen])
            for kind, chosen in kinds.items()
            if chosen.any()
        ],
        rules=(numbers[1:][launch[1:] != launch[:-1]] - 0.5).tolist(),
        beside=f"{median:,.1f} ms",
    )
