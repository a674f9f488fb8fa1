"""One row for each model and backend: summary.csv, and the tables for a pull request and for a paper."""

from collections.abc import Sequence

from bench.report.content.backend_columns import IN_SUMMARY, PAPER, BackendRow, backend_table
from bench.report.content.blocks import Block, Bold, Bullets, Paragraph
from bench.report.content.selection import panels_of
from bench.report.render.csv import render_csv
from bench.report.render.latex import render_table
from bench.report.render.markdown import render_markdown
from bench.report.words.formatting import one_line

FILE = "summary.csv"


def summary_csv(rows: Sequence[BackendRow]) -> str:
    """The content of summary.csv."""
    return render_csv(rows, IN_SUMMARY)


def summary_markdown(rows: Sequence[BackendRow]) -> str:
    """A table for a pull request: one for each machine, under its name."""
    blocks: list[Block] = []
    for machine, group in _by_machine(rows).items():
        blocks += [Paragraph(Bold(machine)), backend_table(PAPER, group)]
        notes = [
            f"{row.comparison.label}, {row.summary.backend}: {row.summary.message}"
            for row in group
            if row.summary.message and row.summary.speedup is None
        ]
        blocks += [Bullets(notes)] if notes else []
    return render_markdown(blocks)


def summary_latex(rows: Sequence[BackendRow]) -> str:
    """A table for a paper, for the package booktabs: one for each machine, which its caption names."""
    tables = []
    for machine, group in _by_machine(rows).items():
        over = " or ".join(dict.fromkeys(one_line(row.comparison.reference) for row in group))
        caption = (
            f"Samples/s, and speed-up over {over} with its 95 % interval over launches. Machine: {machine}."
        )
        tables.append(render_table(backend_table(PAPER, group), caption))
    return "\n".join(tables)


def _by_machine(rows: Sequence[BackendRow]) -> dict[str, list[BackendRow]]:
    """The rows under the headings of `panels_of`."""
    comparisons = list({id(row.comparison): row.comparison for row in rows}.values())
    return {
        heading: [row for row in rows if any(row.comparison is comparison for comparison in group)]
        for heading, group in panels_of(comparisons).items()
    }
