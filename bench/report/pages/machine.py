"""The page of a machine: the answer, a figure and a row for each model; then everything else, folded."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

from bench.analysis.answer import Outcome, find_outcome, find_outcome_over_best
from bench.errors import plural
from bench.report.content.answer import ABOUT_ANSWERS, NO_ANSWER, QUESTION
from bench.report.content.blocks import (
    Block,
    Bullets,
    Column,
    Folded,
    Heading,
    Link,
    Paragraph,
    Small,
    Table,
    Text,
    table,
    text_column,
    with_code,
)
from bench.report.content.collection import Collection, ReportedComparison
from bench.report.content.models import ModelRow, Setting
from bench.report.content.pictures import MORE, ReportFigure
from bench.report.pages.comparison import LEFT_ALONE, comparison_blocks
from bench.report.words.formatting import MISSING, TIMES, one_line, ratio, short_ratio

ABOUT_MODELS = (
    "A row is one comparison: samples/s over those of PyTorch in the same rounds, with the 95 % interval "
    "over launches and the verdict; peak memory over that of PyTorch, on the rank or GPU that has most. A "
    "model that was compared several times is shown by the comparison with most of these backends, several "
    "launches and the fewest other settings. How every number is defined: docs/methodology.md."
)


def machine_page(
    machine: str,
    collection: Collection,
    settings: Sequence[Setting],
    figures: Sequence[ReportFigure],
    other_pages: Sequence[Link],
) -> list[Block]:
    """Everything about a machine of this name, which is empty for another folder.

    The settings have a row for each model; no comparison has the title of another.
    """
    tops = [_figures_of(setting, figures) for setting in settings]
    rest = [figure for figure in figures if figure not in chain(*tops)]
    blocks: list[Block] = [Heading(QUESTION, 1), *([Paragraph(machine)] if machine else [])]
    if collection.refused:
        blocks.append(Bullets(collection.refused))
    for setting, top in zip(settings, tops, strict=True):
        pictures = [figure.picture for figure in top]
        blocks += [Heading(setting.heading), setting.answer.table, *pictures, _model_table(setting)]
    blocks += [Paragraph(f"{ABOUT_ANSWERS} {ABOUT_MODELS}" if settings else NO_ANSWER), *_fold_figures(rest)]
    comparisons, not_above = collection.comparisons, f"; in no table above, since {LEFT_ALONE}"
    blocks.append(Heading(f"{plural(len(comparisons), 'comparison')}{_warnings(comparisons, ', ')}"))
    for one in comparisons:
        summary = f"{one.title}{_warnings([one], ': ')}{not_above if one.uncontrolled else ''}"
        blocks.append(Folded(summary, comparison_blocks(one), anchor=one.anchor))
    if other_pages:
        blocks += [Paragraph("Further pages:"), Bullets(other_pages)]
    return [*blocks, Paragraph(with_code("Rebuilt from `results/` alone by `make report`."))]


def _fold_figures(figures: Sequence[ReportFigure]) -> Iterable[Folded]:
    """Figures that do not stand at the top, those of the core last."""
    for heading in sorted(dict.fromkeys(each.section for each in figures), key=lambda name: name == MORE):
        pictures = [figure.picture for figure in figures if figure.section == heading]
        yield Folded(heading, pictures, is_section=True)


def _figures_of(setting: Setting, figures: Sequence[ReportFigure]) -> list[ReportFigure]:
    """The first figure that belongs to the answer of a setting."""
    anchors = {comparison.anchor for comparison in setting.comparisons}
    return [figure for figure in figures if anchors & figure.beside_answer_of][:1]


# A row for each model


def _model_table(setting: Setting) -> Table:
    """The table of one setting. MKL's full path has columns where it was measured."""
    backends = setting.backends
    finders = {name: partial(_outcome, name) for name in backends}
    finders |= {f"{name} over best PyTorch": partial(_outcome, name, over_best=True) for name in backends}
    if any(row.full_path for row in setting.rows):
        first = partial(_outcome, backends[0], full_path=True)
        finders |= {
            f"{backends[0]}, MKL's full path": first,
            f"{backends[0]} over best PyTorch, MKL's full path": partial(first, over_best=True),
        }
    columns = [
        text_column("model", lambda row: Link(row.name, f"#{row.comparisons[0].anchor}")),
        *(Column(one_line(header), partial(_outcome_text, find)) for header, find in finders.items()),
        Column[ModelRow]("peak memory", partial(_memory, backends)),
        text_column("status", lambda row: _status(row.comparisons, backends)),
    ]
    return table(setting.rows, columns)


def _outcome(
    backend: str, row: ModelRow, *, over_best: bool = False, full_path: bool = False
) -> Outcome | None:
    comparison = row.full_path if full_path else row.as_installed
    find = find_outcome_over_best if over_best else find_outcome
    return find(comparison, backend) if comparison else None


def _outcome_text(find: Callable[[ModelRow], Outcome | None], row: ModelRow) -> Text:
    if (outcome := find(row)) is None:
        return MISSING
    if outcome.speedup is None:
        return outcome.verdict
    return [ratio(outcome.speedup.ratio), Small(outcome.speedup.interval), Small(outcome.verdict)]


def _memory(backends: Sequence[str], row: ModelRow) -> str:
    outcomes = [_outcome(name, row) for name in backends]
    return " / ".join(
        MISSING if outcome is None or outcome.memory is None else f"{short_ratio(outcome.memory)}{TIMES}"
        for outcome in outcomes
    )


def _status(comparisons: Sequence[ReportedComparison], backends: Sequence[str]) -> str:
    """`ok`, or which backend is not; and how many warnings the comparisons have."""
    wanted = {*backends, *(comparison.reference for comparison in comparisons)}
    failed = [
        f"{one_line(summary.backend)} {summary.status}"
        for comparison in comparisons
        for summary in comparison.summaries
        if summary.backend in wanted and summary.status != "ok"
    ]
    return f"{', '.join(dict.fromkeys(failed)) or 'ok'}{_warnings(comparisons, '; ')}"


# Everything else


def _warnings(comparisons: Sequence[ReportedComparison], before: str = "") -> str:
    """`12 warnings` and what separates them from the words before; empty without any."""
    count = sum(len(comparison.warnings) for comparison in comparisons)
    return f"{before}{plural(count, 'warning')}" if count else ""
