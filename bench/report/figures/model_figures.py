"""The figures over many models: one for each quantity, drawn for a command or for a whole report."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.errors import UserError
from bench.report.content.collection import ReportedComparison
from bench.report.content.pictures import ReportFigure
from bench.report.content.quantities import BREAKDOWN, KINDS, QUANTITIES
from bench.report.content.selection import choose_one_of_each_model, panels_of
from bench.report.figures.breakdown_chart import breakdown_chart, breakdown_rows, describe_steps
from bench.report.figures.model_chart import model_chart
from bench.report.figures.models import ModelRows, describe_models
from bench.report.figures.picture_files import write_figure
from bench.report.figures.row_chart import draw_rows
from bench.report.figures.sheet import REPORT_WIDTH
from bench.report.figures.style import LIGHT, Theme
from bench.report.words.describe import has_full_path, short_setting
from bench.report.words.titles import spell_model


def write_model_figure(
    comparisons: Sequence[ReportedComparison],
    path: Path,
    *,
    of: str = "speedup",
    width: float = REPORT_WIDTH,
    theme: Theme = LIGHT,
    backends: Sequence[str] = (),
    title: str | None = None,
    with_caption: bool = True,
) -> tuple[str, Sequence[str]]:
    """Draw one figure of these comparisons.

    Args:
        comparisons: one model of the figure each; those of different machines get panels of their own.
        path: where to, ending in .svg, .pdf or .png.
        of: of `KINDS`.
        width: in inches; the height follows.
        theme: light or dark.
        backends: whose bars; the usual ones without any.
        title: in place of its own; empty for none.
        with_caption: whether the caption is part of the picture.

    Returns:
        The caption, and a sentence for each comparison that could not be shown.

    Raises:
        UserError: nothing can be shown, a backend is unknown, or the path has another ending.
    """
    if of == BREAKDOWN:
        chart = breakdown_chart(comparisons, backends=backends)
        rows, description = breakdown_rows(chart, theme), describe_steps(chart)
    else:
        chart = model_chart(comparisons, QUANTITIES[of], backends=backends)
        rows, description = ModelRows(chart, theme, width).make(), describe_models(chart)
    drawn = replace(
        rows,
        title=rows.title if title is None else title,
        caption=rows.caption if with_caption else "",
    )
    write_figure(
        path,
        partial(draw_rows, drawn, width=width),
        theme=theme,
        title=title or rows.title,
        description=f"{description} {rows.caption}",
    )
    return rows.caption, chart.left_out


def write_report_figures(sets: Sequence[Sequence[ReportedComparison]], folder: Path) -> list[ReportFigure]:
    """Draw the figures of a report: `models-speedup.svg` and so on.

    Every set gets its own, numbered from the second on. What is not known, such as energy on a CPU, has none.
    """
    written = []
    for number, comparisons in enumerate(sets, 1):
        for kind in KINDS:
            path = folder / (f"models-{kind}.svg" if number == 1 else f"models-{kind}-{number}.svg")
            try:
                write_model_figure(comparisons, path, of=kind)
            except UserError:
                continue  # there is no such figure of these results
            words = describe_set(comparisons)
            anchors = {comparison.anchor for comparison in comparisons}
            written.append(ReportFigure(path=path, kind=f"models-{kind}", of=words, anchors=anchors))
    return written


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
    newest_first = sorted(
        several, key=lambda group: max(comparison.measured_at for comparison in group), reverse=True
    )
    return sorted(
        newest_first,
        key=lambda group: (any(has_full_path(comparison.rows) for comparison in group), -len(group)),
    )
