"""The figures of many models: for each a bar of every backend, from the reference at 1."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.errors import UserError
from bench.report.content.collection import ReportedComparison
from bench.report.content.models import choose_one_of_each_model, panels_of
from bench.report.content.pictures import ReportFigure, numbered
from bench.report.content.quantities import BREAKDOWN, KINDS, QUANTITIES, SPEEDUP, Ratio
from bench.report.figures import style
from bench.report.figures.breakdown_chart import breakdown_chart, breakdown_rows, describe_steps
from bench.report.figures.model_chart import (
    ModelBar,
    ModelChart,
    ModelLine,
    hardware_of,
    machine_and_workload,
    model_chart,
)
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import Bar, Marks, Row, RowChart, RowGroup, draw_rows, ends_of, ratio_limits
from bench.report.figures.sheet import REPORT_WIDTH, WIDE, bar_entry, interval_entry, mark_entry
from bench.report.figures.style import LIGHT, Theme
from bench.report.words.describe import has_full_path, short_setting
from bench.report.words.formatting import TIMES, as_sentence, one_line
from bench.report.words.titles import spell_model


@dataclass(frozen=True, kw_only=True)
class ModelFigure:
    """A figure that can be drawn."""

    write: Callable[[], None]  # draws and writes it
    caption: str
    left_out: Sequence[str]  # a sentence for each comparison that cannot be shown


def plan_model_figure(
    comparisons: Sequence[ReportedComparison],
    path: Path,
    *,
    of: str = "speedup",
    width: float | None = None,
    theme: Theme = LIGHT,
    backends: Sequence[str] = (),
    title: str | None = None,
) -> ModelFigure:
    """One figure of these comparisons.

    Args:
        comparisons: a model each; those of different machines get panels of their own.
        path: ends in .svg, .pdf or .png.
        of: of `KINDS`.
        width: in inches, of which an SVG has the size; without one it is as wide as a page.
        theme: light or dark.
        backends: whose bars; the usual ones without any.
        title: in place of its own; empty for none.

    Raises:
        UserError: nothing can be shown, or a backend is unknown.
    """
    if of == BREAKDOWN:
        chart = breakdown_chart(comparisons, backends=backends)
        rows, description = breakdown_rows(chart, theme), describe_steps(chart)
    else:
        chart = model_chart(comparisons, QUANTITIES[of], backends=backends)
        rows, description = model_rows(chart, theme, width or REPORT_WIDTH), describe_models(chart)
    drawn = replace(rows, title=rows.title if title is None else title)
    write = partial(
        write_figure,
        path,
        partial(draw_rows, drawn, width=width or REPORT_WIDTH),
        theme=theme,
        title=title or rows.title,
        description=f"{description} {rows.caption}",
        on_page=width is None,
    )
    return ModelFigure(write=write, caption=rows.caption, left_out=chart.left_out)


def planned_figures(
    sets: Sequence[Sequence[ReportedComparison]], folder: Path
) -> list[tuple[ReportFigure, Callable[[], None]]]:
    """The figures of a report, and what draws and writes each: `models-speedup.svg` and so on.

    Every set gets its own, numbered from the second on. What is not known, such as energy on a CPU, has none.
    """
    planned = []
    for number, comparisons in enumerate(sets, 1):
        for kind in KINDS:
            path = folder / f"{numbered(f'models-{kind}', number)}.svg"
            try:
                made = plan_model_figure(comparisons, path, of=kind)
            except UserError:
                continue  # there is no such figure of these results
            figure = ReportFigure(
                path=path,
                kind=f"models-{kind}",
                of=describe_set(comparisons),
                caption=made.caption,
                anchors={comparison.anchor for comparison in comparisons},
            )
            planned.append((figure, made.write))
    return planned


def describe_set(group: Sequence[ReportedComparison]) -> str:
    """Machine, settings and models: `…: BERT-Mini and GPT-2`, or `…: BERT-Mini and 9 others`."""
    first, *others = dict.fromkeys(spell_model(comparison.label) for comparison in group)
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


def model_rows(chart: ModelChart, theme: Theme, width: float) -> RowChart:
    """The rows of a drawing of so many inches, on which intervals are written where there is room."""
    grouped = len({line.modality for line in chart.lines}) > 1
    looks = style.looks(chart.backends)

    def make_group(line: ModelLine) -> RowGroup:
        return RowGroup(
            name=line.name,
            detail=line.detail,
            section=line.modality if grouped else "",
            rows=[_row(line, bar, theme, width, looks) for bar in line.bars],
            best=line.best[1].value if line.best else None,
        )

    ratios = [bar.ratio for line in chart.lines for bar in line.bars if bar.ratio]
    values = [ratio.value for ratio in ratios] + [line.best[1].value for line in chart.lines if line.best]
    values += [mark.ratio for line in chart.lines for mark in line.published]
    ends = [end for ratio in ratios for end in (ratio.low, ratio.high) if end is not None]
    diamond = style.diamond(theme)
    best = {"marker": "|", "color": theme.best, "mew": 1.7, "markersize": 7}
    quantity = chart.quantity
    return RowChart(
        title=quantity.title.format(chart.reference),
        panels={
            heading if len(chart.panels) > 1 else "": [*map(make_group, lines)]
            for heading, lines in chart.panels.items()
        },
        limits=ratio_limits(values, ends),
        logarithmic=True,
        label=f"← {quantity.less} · {quantity.axis.format(chart.reference)} · {quantity.more} →",
        caption=caption(chart),
        legend=[
            *(bar_entry(name, looks[name]) for name in chart.backends),
            *([interval_entry(theme)] if ends else []),
            *([mark_entry("best PyTorch", best)] if any(line.best for line in chart.lines) else []),
            *([mark_entry("published, other hardware", diamond)] if chart.sources else []),
        ],
        line=1,
        row=0.105,  # as high as the number beside it
        bar=0.1,
    )


def _row(line: ModelLine, bar: ModelBar, theme: Theme, width: float, looks: Mapping[str, style.Look]) -> Row:
    published = [mark.ratio for mark in line.published if mark.backend == bar.backend]
    # equal ones do not hide each other
    down = [0.4 * (place - (len(published) - 1) / 2) for place in range(len(published))]
    marks = [Marks(values=published, down=down, mark=style.diamond(theme))] if published else []
    ratio = bar.ratio
    if ratio is None:
        return Row(marks=marks, reason=bar.reason)
    return Row(
        bars=[Bar(1, ratio.value, looks[bar.backend])],
        interval=ends_of(ratio),
        marks=marks,
        beside=with_interval(ratio) if width >= WIDE else f"{ratio.value:.2f}{TIMES}",
    )


def caption(chart: ModelChart) -> str:
    """How to read the chart, on which machine it was measured, and of which workload."""
    names = ", ".join(dict.fromkeys(one_line(line.best[0]) for line in chart.lines if line.best))
    sentences = [
        chart.quantity.caption.format(chart.reference),
        *_notes(chart),
        *machine_and_workload(chart),
        f"Upright mark: the fastest PyTorch of the same comparison{names and f' ({names})'}.",
        *_about_published(chart),
    ]
    return " ".join(sentences)


def _notes(chart: ModelChart) -> list[str]:
    """What the intervals leave out."""
    others = [other for line in chart.lines for other in line.comparison.others if other.speedup]
    notes = {other.speedup.note for other in others if other.speedup and chart.quantity is SPEEDUP}
    return [as_sentence(note) for note in sorted(notes - {""})]


def _about_published(chart: ModelChart) -> list[str]:
    where = "; ".join(chart.sources)
    return (
        [f"Diamonds: published for the whole model on other hardware ({where}), not comparable."]
        if where
        else []
    )


def describe_models(chart: ModelChart) -> str:
    """Everything that the chart shows but its caption, a sentence for each model."""
    return " ".join(
        " ".join([f"{heading}:", *map(_sentence, lines)]) for heading, lines in chart.panels.items()
    )


def _sentence(line: ModelLine) -> str:
    parts = []
    for bar in line.bars:
        reason = f"{bar.reason} ({bar.message})" if bar.message else bar.reason
        parts.append(f"{one_line(bar.backend)} {with_interval(bar.ratio) if bar.ratio else reason}")
    if line.best:
        parts.append(f"best PyTorch ({one_line(line.best[0])}) {with_interval(line.best[1])}")
    parts += [
        f"published {mark.backend} {mark.ratio:.2f}{TIMES} on {hardware_of(mark)}" for mark in line.published
    ]
    return f"{line.label}: {', '.join(parts)}."


def with_interval(ratio: Ratio) -> str:
    """`1.250× [1.201, 1.310]`, or the ratio alone."""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f}{TIMES}"
    return f"{ratio.value:.3f}{TIMES} [{ratio.low:.3f}, {ratio.high:.3f}]"
