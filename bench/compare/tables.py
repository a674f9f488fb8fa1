"""The table of a pair of files, for the terminal and in Markdown."""

from rich.console import Group
from rich.text import Text

from bench.compare.changes import BackendChange
from bench.report.content import blocks
from bench.report.content.backend_columns import ratio_above_interval
from bench.report.content.blocks import Bullets, Column, Heading, Small, table, text_column
from bench.report.render import markdown
from bench.report.render.terminal import render_table
from bench.report.words.formatting import MISSING, one_line, ratio


def _verdict(change: BackendChange) -> blocks.Text:
    """The verdict; each metric that became worse stands on a separate line where there is room."""
    worse = f"REGRESSION: {', '.join(change.regressions)}" if change.regressions else ""
    lines = [change.verdict, *worse.replace(", ", ",\n").split("\n")]
    first, *others = [*filter(None, lines)] or [MISSING]
    return [first, *map(Small, others)]


COLUMNS: list[Column[BackendChange]] = [
    text_column("backend", lambda change: one_line(change.backend)),
    Column("base samples/s", lambda change: change.base),
    Column("new samples/s", lambda change: change.new),
    Column("new / base [95 %]", lambda change: ratio_above_interval(change.ratio)),
    Column("its speed-up [95 %]", lambda change: ratio_above_interval(change.speedup_change)),
    Column("memory", lambda change: ratio(change.memory_change.ratio if change.memory_change else None)),
    text_column("verdict", _verdict),
]


def render_terminal(title: str, changes: list[BackendChange], notes: list[str]) -> Group:
    """The table of one pair of files and notes below it, at most 100 columns wide."""
    below = (Text(f"- {line}") for line in _below_the_table(changes, notes))
    return Group(render_table(table(changes, COLUMNS), title=title), *below)


def render_markdown(title: str, changes: list[BackendChange], notes: list[str]) -> str:
    """The table of one pair of files and notes below it, to paste into a pull request."""
    below = Bullets(_below_the_table(changes, notes))
    return markdown.render_markdown([Heading(title, 3), table(changes, COLUMNS), below])


def _below_the_table(changes: list[BackendChange], notes: list[str]) -> list[str]:
    return [*sorted({c.ratio.note for c in changes if c.ratio and c.ratio.note}), *notes]
