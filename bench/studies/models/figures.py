"""The figures of many models: for each a bar of every backend, from the reference at 1."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.errors import UserError, plural
from bench.report.content.collection import ReportedComparison
from bench.report.content.models import choose_one_of_each_model
from bench.report.content.pictures import Planned, ReportFigure, numbered
from bench.report.figures import style
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import Bar, Row, RowChart, RowGroup, draw_rows, ends_of, ratio_limits
from bench.report.figures.style import WIDTH, bar_entry, interval_entry, mark_entry
from bench.report.words.describe import has_full_path, short_setting
from bench.report.words.formatting import TIMES, as_sentence, one_line, ratio_and_interval
from bench.statistics.intervals import Speedup
from bench.statistics.summary import BackendSummary
from bench.statistics.table_values import count_launches
from bench.studies.models.choosing import choose_backends, panels_of, showable
from bench.studies.models.trade_off import CAPTION, choose, draw_trade_off

KINDS = {"speedup": "Training speed, model by model", "memory": "Peak memory, model by model"}
"""What a report shows of many models."""

WIDE = 5.5  # inches from which on there is room for intervals as numbers

_TEXTS = {
    "speedup": (
        "Training speed relative to {}",
        "← slower · speed-up over {} (×, logarithmic) · faster →",
        "Bars: samples/s over that of {}. Whiskers: 95 % interval over launches.",
    ),
    "memory": (
        "Peak memory relative to {}",
        "← less · peak memory over {}'s (×, logarithmic) · more →",
        "Bars: peak of the timed blocks, of the GPU or else of the rank that has most, over that of {}. "
        "A peak is the highest of all blocks, so that it has no interval.",
    ),
}
"""Title, axis and caption; the reference's name takes the place of `{}`."""

_TELLING = ("precision", "attention", "trained", "checkpointing", "data", "memory limit")
"""Parts of a workload that stand at a model's name where they differ between the models of a chart."""

Of = Callable[[ReportedComparison, BackendSummary], Speedup | None]


def model_chart(
    comparisons: Sequence[ReportedComparison],
    *,
    of: str = "speedup",
    backends: Sequence[str] = (),
    width: float = WIDTH,
) -> tuple[RowChart, list[str]]:
    """The chart `of` one of `KINDS`, and a sentence for each comparison left out; UserError if all are."""
    chosen, left_out = showable(comparisons, as_speedup=of == "speedup")
    names = choose_backends(chosen, backends)
    looks = style.looks(names)
    find = _speedup if of == "speedup" else _memory
    panels = {heading: _groups(group, find, looks, width) for heading, group in panels_of(chosen).items()}
    reference = " or ".join(dict.fromkeys(one_line(comparison.reference) for comparison in chosen))
    title, label, caption = (text.format(reference) for text in _TEXTS[of])
    groups = [group for several in panels.values() for group in several]
    rows = [row for group in groups for row in group.rows]
    values = [bar.end for row in rows for bar in row.bars]
    best = [group.best for group in groups if group.best is not None]
    ends = [end for row in rows for end in row.interval or ()]
    upright = {"marker": "|", "color": style.BEST, "mew": 1.7, "markersize": 7}
    chart = RowChart(
        title=title,
        panels=panels if len(panels) > 1 else {"": groups},
        limits=ratio_limits([*values, *best], ends),
        logarithmic=True,
        label=label,
        caption=f"{caption} {_about(chosen, of, several=len(panels) > 1)}",
        legend=[
            *(bar_entry(name, looks[name]) for name in names),
            *([interval_entry()] if ends else []),
            *([mark_entry("best PyTorch", upright)] if best else []),
        ],
        line=1,
        row=0.12,
        bar=0.1,
    )
    return chart, left_out


def planned_figures(families: Sequence[Sequence[ReportedComparison]], folder: Path) -> list[Planned]:
    """The figures of a report, with the function that draws each: `models-speedup.svg` and so on.

    Every set of comparisons gets its own, numbered from the second on. What cannot be shown of one has none.
    Last is the trade-off of one comparison.
    """
    planned: list[Planned] = []
    for number, comparisons in enumerate(figure_sets(families), 1):
        for kind, title in KINDS.items():
            try:
                chart, _ = model_chart(comparisons, of=kind)
            except UserError:
                continue  # there is no such figure of these results
            figure = ReportFigure(
                path=folder / f"{numbered(f'models-{kind}', number)}.svg",
                title=title,
                of=describe_set(comparisons),
                caption=chart.caption,
                beside_answer_of={one.anchor for one in comparisons if kind == "speedup"},
            )
            planned.append((figure, partial(write_figure, figure.path, partial(draw_rows, chart))))
    for one in choose(next(filter(None, reversed(families)), [])):
        figure = ReportFigure(
            path=folder / f"trade-off-{one.anchor}.svg",
            title="Speed-up against peak memory",
            of=one.title,
            caption=CAPTION,
        )
        planned.append((figure, partial(write_figure, figure.path, partial(draw_trade_off, one))))
    return planned


def describe_set(group: Sequence[ReportedComparison]) -> str:
    """Machine, settings and models: `…: bert-mini and gpt2`, or `…: bert-mini and 9 others`."""
    first, *others = dict.fromkeys(comparison.label for comparison in group)
    models = f"{first} and {others[0] if len(others) == 1 else f'{len(others)} others'}"
    return f"{short_setting(group[0].rows)}: {models}"


def figure_sets(families: Sequence[Sequence[ReportedComparison]]) -> list[list[ReportedComparison]]:
    """What stands together: one comparison of each model, where there are several models.

    Those with MKL's full path come last, since users have the other; of as many models those measured last
    come first. A page shows each set beside its machine's answer, whatever its number.
    """
    groups = [
        choose_one_of_each_model(group)
        for family in families
        for group in panels_of([comparison for comparison in family if not comparison.uncontrolled]).values()
    ]
    several = [group for group in groups if len({comparison.label for comparison in group}) > 1]
    several.sort(key=lambda group: max(one.measured_at for one in group), reverse=True)
    return sorted(several, key=lambda group: (any(has_full_path(one.rows) for one in group), -len(group)))


def _speedup(_: ReportedComparison, summary: BackendSummary) -> Speedup | None:
    return summary.speedup


def _memory(comparison: ReportedComparison, summary: BackendSummary) -> Speedup | None:
    peak, base = summary.peak_mib, comparison.base.peak_mib if comparison.base else None
    return _exactly(peak / base) if peak and base else None


def _exactly(ratio: float) -> Speedup:
    return Speedup(ratio=ratio, low=None, high=None, launches=0, rounds=0)


def _groups(
    comparisons: Sequence[ReportedComparison], find: Of, looks: Mapping[str, style.Look], width: float
) -> list[RowGroup]:
    """A group for each model; the fastest first, by the first backend, whatever the chart shows of them."""

    def key(comparison: ReportedComparison) -> tuple[list[tuple[bool, float]], str]:
        summaries = map(comparison.of, looks)
        speeds = [summary.speedup.ratio if summary and summary.speedup else None for summary in summaries]
        return [(speed is None, -(speed or 0)) for speed in speeds], comparison.label

    return [
        RowGroup(
            name=_name(comparison, comparisons),
            rows=[_row(comparison, backend, find, look, width) for backend, look in looks.items()],
            best=_best(comparison, find),
        )
        for comparison in sorted(comparisons, key=key)
    ]


def _name(comparison: ReportedComparison, group: Sequence[ReportedComparison]) -> str:
    """The model, and what distinguishes it from the others."""
    parts = comparison.workload_parts
    same = [other for other in group if other.label == comparison.label]
    words = [
        words
        for part, words in parts.items()
        if part != "size"
        and any(other.workload_parts[part] != words for other in (group if part in _TELLING else same))
    ]
    alike = [other.overrides for other in same if other.workload_key == comparison.workload_key]
    own = [value for value in comparison.overrides if not all(value in others for others in alike)]
    return ", ".join([comparison.label, *filter(None, words), *own])


def _row(comparison: ReportedComparison, backend: str, find: Of, look: style.Look, width: float) -> Row:
    summary = comparison.of(backend)
    if summary is None:
        return Row(reason="not measured")
    if summary.status != "ok":
        return Row(reason=summary.status)
    ratio = _exactly(1.0) if summary.is_reference else None
    if summary.speedup:  # what forbids a speed-up forbids every other ratio
        ratio = find(comparison, summary)
    if ratio is None:
        return Row(reason=summary.no_speedup or "not known")
    interval = ends_of(ratio)
    beside = ratio_and_interval(ratio) if interval and width >= WIDE else f"{ratio.ratio:.3f}{TIMES}"
    return Row(bars=[Bar(1, ratio.ratio, look)], interval=interval, beside=beside)


def _best(comparison: ReportedComparison, find: Of) -> float | None:
    """The fastest PyTorch of the comparison, whatever the chart shows: the one that a user would take."""
    best = comparison.best_pytorch
    if best is None:
        return None
    ratio = _exactly(1.0) if best.is_reference else find(comparison, best) if best.speedup else None
    return ratio.ratio if ratio else None


def _about(comparisons: Sequence[ReportedComparison], of: str, *, several: bool) -> str:
    """What intervals leave out; the machine, unless headings name several; settings that all share."""
    speedups = [other.speedup for one in comparisons for other in one.others if other.speedup]
    notes = sorted({speedup.note for speedup in speedups if of == "speedup"} - {""})
    machine = [] if several else [f"Machine: {comparisons[0].panel}."]
    parts = [comparison.workload_parts for comparison in comparisons]
    common = [
        words
        for name, words in parts[0].items()
        if name != "size" and {workload[name] for workload in parts} == {words}
    ]
    launches = {count_launches(comparison.rows) for comparison in comparisons}
    few, many = min(launches), max(launches)
    extent = plural(many, "launch", "es") if few == many else f"{few} to {many} launches"
    workload = one_line(", ".join(filter(None, [*common, extent])))
    best = [one.best_pytorch.backend for one in comparisons if one.best_pytorch]
    names = f" ({', '.join(map(one_line, dict.fromkeys(best)))})" if best else ""
    mark = f"Upright mark: the fastest PyTorch of the same comparison{names}."
    return " ".join([*map(as_sentence, notes), *machine, f"Workload: {workload}.", mark])
