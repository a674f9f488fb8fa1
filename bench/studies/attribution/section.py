"""What a page says of a comparison that has every combination of some choices."""

from bench.report.content.blocks import Block, Column, Paragraph, table, text_column
from bench.report.content.collection import ReportedComparison
from bench.report.words.formatting import ratio_and_interval
from bench.statistics.table_values import stopped_by_width
from bench.studies.attribution.division import Attribution, Contribution, attribute, changed_factors

COLUMNS: list[Column[Contribution]] = [
    text_column("choice", lambda part: part.factor),
    text_column("change", lambda part: part.change),
    Column("effect [95 %]", lambda part: ratio_and_interval(part.effect)),
    Column("in single orders", lambda part: f"{part.lowest:.3f} to {part.highest:.3f}"),
]


def divide(comparison: ReportedComparison) -> Attribution | None:
    """The speed-up of the backend that changes most choices, divided among them."""
    start = comparison.base
    if start is None:
        return None
    stopped = stopped_by_width(comparison.rows)
    changes = {other.backend: len(changed_factors(start, other)) for other in comparison.others}
    most_first = sorted(changes, key=lambda backend: -changes[backend])
    attributions = (
        attribute(comparison.summaries, backend, stopped_by_width=stopped)
        for backend in most_first
        if changes[backend] > 1
    )
    return next(filter(None, attributions), None)


def make_blocks(comparison: ReportedComparison) -> list[Block]:
    """What made the difference, choice by choice; nothing without all combinations."""
    divided = divide(comparison)
    if divided is None:
        return []
    words = f"{divided.end} runs at {ratio_and_interval(divided.total)} of {divided.start}; of this are"
    return [Paragraph(words), table(divided.parts, COLUMNS)]
