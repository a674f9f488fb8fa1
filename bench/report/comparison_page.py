"""The section of one comparison: its table, what went wrong, and how it was measured."""

import pandas as pd

from bench.analysis.table_values import distinct_text
from bench.config.reference import describe_reference
from bench.report.comparison_columns import TEXT_COLUMNS, backend_notes, columns_of, limited_by
from bench.report.comparison_sections import sections
from bench.report.content import definitions
from bench.report.content.collection import ReportedComparison
from bench.report.markdown import table_of
from bench.report.render.markdown import escaped
from bench.report.words import describe
from bench.statistics.summary import BackendSummary


def render_comparison(comparison: ReportedComparison) -> str:
    """The section in Markdown, without its heading."""
    rows, summaries = comparison.rows, comparison.summaries
    columns = columns_of(rows, summaries)
    over = describe_reference(comparison.reference, [one.backend for one in summaries])
    notes = [f"- {escaped(over)}"] if over else []
    notes += [f"- {escaped(backend)}: {escaped(note)}" for backend, note in backend_notes(summaries)]
    notes += [f"- warning: {escaped(str(warning))}" for warning in comparison.warnings]
    notes += [f"- {escaped(sentence)}" for sentence in comparison.explanation]
    if comparison.uncontrolled:
        notes.append(f"- {definitions.LEFT_ALONE}")
    lines = [
        *table_of(summaries, columns, columns.keys() - TEXT_COLUMNS),
        *([*notes, ""] if notes else []),
        *sections(comparison),
        *(f"- {escaped(fact)}" for fact in _facts(rows, summaries)),
        f"- results file: {escaped(comparison.study)}/{escaped(comparison.stem)}.csv",
        "",
    ]
    return "\n".join(lines)


def _facts(rows: pd.DataFrame, summaries: list[BackendSummary]) -> list[str]:
    """Everything that a reader needs to judge or repeat the figures."""
    command, products = distinct_text(rows, "command"), describe.products(rows)
    return [
        describe.workload(rows),
        describe.hardware(rows),
        describe.versions(rows),
        *([f"made by: {command}"] if command else []),
        f"{describe.extent(rows)}. {definitions.METHOD}{describe.stopping_rule(rows)} "
        "Peak memory is that of the timed blocks.",
        *_false_verdicts(summaries),
        *limited_by(summaries),
        *([products] if products else []),
    ]


def _false_verdicts(summaries: list[BackendSummary]) -> list[str]:
    """How many verdicts chance alone would make; nothing where there is only one."""
    judged = sum(one.verdict is not None for one in summaries)
    if judged < 2:
        return []
    expected = definitions.FALSE_VERDICTS * judged
    return [
        f"were all {judged} backends as fast as the reference, {expected:.2g} of their verdicts would be "
        "faster or slower by chance alone"
    ]
