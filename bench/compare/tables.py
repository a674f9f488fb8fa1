"""The tables, for the terminal and in Markdown: of a pair of files, and of a new one and other machines."""

from collections.abc import Iterable
from dataclasses import replace
from textwrap import shorten

from rich.console import Group
from rich.table import Table
from rich.text import Text

from bench.closing import WIDTH
from bench.compare.changes import BackendChange
from bench.compare.other_machines import OtherMachines
from bench.report.content import blocks
from bench.report.content.backend_columns import ratio_above_interval
from bench.report.content.blocks import Bullets, Column, Heading, Small, table, text_column
from bench.report.pages.machines import machines_table, title_of
from bench.report.render import markdown
from bench.report.render.terminal import render_table
from bench.report.words.formatting import MISSING, one_line, plural, ratio

MOST_BACKENDS = 4  # columns of other machines' results in the terminal


def _verdict(change: BackendChange) -> blocks.Text:
    """The verdict; each metric that became worse stands on a line of its own where there is room."""
    worse = f"REGRESSION: {', '.join(change.regressions)}" if change.regressions else ""
    first, *others = list(filter(None, [change.verdict, *worse.replace(", ", ",\n").split("\n")])) or [
        MISSING
    ]
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
    return _with_bullets(render_table(title, table(changes, COLUMNS)), _below_the_table(changes, notes))


def render_markdown(title: str, changes: list[BackendChange], notes: list[str]) -> str:
    """The table of one pair of files and notes below it, to paste into a pull request."""
    below = Bullets(_below_the_table(changes, notes))
    return markdown.render_markdown([Heading(title, 3), table(changes, COLUMNS), below])


def render_machines_for_terminal(title: str, others: OtherMachines) -> Group:
    """A new result and the same comparison on other machines, at most 100 columns wide."""
    if others.same is None:
        return Group(Text(f"{one_line(title)} is new: {others.reason}."))
    same = replace(others.same, backends=others.same.backends[:MOST_BACKENDS])
    more = len(others.same.backends) - MOST_BACKENDS
    left_out = [f"and {plural(more, 'more backend')}; --markdown shows all"] * (more > 0)
    heading = f"{title}: {shorten(title_of(same), WIDTH, placeholder=' …')}"
    return _with_bullets(
        render_table(heading, machines_table(same)), [*left_out, *_below_the_machines(others)]
    )


def render_machines_in_markdown(title: str, others: OtherMachines) -> str:
    """A new result and the same comparison on other machines, to paste into a pull request."""
    if others.same is None:
        return f"- {markdown.escaped(f'{title} is new: {others.reason}')}\n"
    heading, below = Heading(f"{title}: {title_of(others.same)}", 3), Bullets(_below_the_machines(others))
    return markdown.render_markdown([heading, machines_table(others.same), below])


def _with_bullets(grid: Table, lines: Iterable[str]) -> Group:
    return Group(grid, *(Text(f"- {line}") for line in lines))


def _below_the_machines(others: OtherMachines) -> list[str]:
    """How to read the rows."""
    assert others.same is not None
    spreads = [backend.spread for backend in others.same.backends]
    is_predicted = any(spread and spread.predicted_low is not None for spread in spreads)
    return [
        "no verdict, since machines differ",
        *["one more machine lies within the last row's interval with 95 %"] * is_predicted,
    ]


def _below_the_table(changes: list[BackendChange], notes: list[str]) -> list[str]:
    return [*sorted({c.ratio.note for c in changes if c.ratio and c.ratio.note}), *notes]
