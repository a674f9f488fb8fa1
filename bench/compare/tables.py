"""The tables, for the terminal and in Markdown: of a pair of files, and of a new one and other machines."""

from textwrap import shorten

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from bench.analysis.machines import SameComparison
from bench.compare.changes import BackendChange
from bench.compare.other_machines import OtherMachines
from bench.report.content.blocks import Bullets, Heading, columns_by_place, plain, table
from bench.report.pages.machines import machines_table, title_of
from bench.report.render import markdown
from bench.report.render.markdown import escaped
from bench.report.words.formatting import MISSING, one_line, plural, ratio, ratio_and_interval
from bench.statistics.table_values import distinct_text

WIDTH = 100
"""Characters of a line in the terminal."""

MOST_MACHINES, MOST_BACKENDS = 6, 4
"""Rows and columns of other machines' results in the terminal: a new result takes at most 40 lines."""

HEADERS = (
    "backend",
    "base samples/s",
    "new samples/s",
    "new / base [95 %]",
    "its speed-up [95 %]",
    "memory",
    "verdict",
)


def render_terminal(title: str, changes: list[BackendChange], differences: list[str]) -> Group:
    """The table of one pair of files and what differs between them, at most 100 columns wide."""
    grid = _grid(title)
    for header in HEADERS:
        name = header == "backend"
        grid.add_column(
            header.replace(" samples", "\nsamples").replace(" [", "\n["),
            justify="left" if name or header == "verdict" else "right",
            overflow="fold",
            no_wrap=not name,
        )
    for change in changes:
        *cells, verdict = _cells(change)
        broken = verdict.replace(" REGRESSION: ", "\nREGRESSION: ").replace(", ", ",\n")
        grid.add_row(*(Text(cell.replace(" [", "\n[")) for cell in cells), Text(broken))
    return Group(grid, *(Text(f"- {line}") for line in _below_the_table(changes, differences)))


def render_markdown(title: str, changes: list[BackendChange], differences: list[str]) -> str:
    """The same in Markdown, to paste into a pull request."""
    columns = columns_by_place(HEADERS, text=("backend", "verdict"))
    return markdown.render_markdown(
        [
            Heading(words=title, level=3),
            table(map(_cells, changes), columns),
            Bullets(items=_below_the_table(changes, differences)),
        ]
    )


def render_machines_for_terminal(title: str, others: OtherMachines) -> Group:
    """A new result and the same comparison on other machines, at most 100 columns wide."""
    if others.same is None:
        return Group(Text(f"{one_line(title)} is new: {others.reason}."))
    same = SameComparison(machines=others.same.machines, backends=others.same.backends[:MOST_BACKENDS])
    grid = _grid(f"{title}: {shorten(title_of(same), WIDTH, placeholder=' …')}")
    machines = machines_table(same)
    for column in machines.columns:
        header = one_line(column.header).replace(" over", "\nover")
        grid.add_column(header, justify="left" if column.is_text else "right", overflow="fold")
    rows = [[plain(cell.text) for cell in row] for row in machines.rows]
    of_machines, of_all = rows[: len(same.machines)], rows[len(same.machines) :]
    for row in [*of_machines[:MOST_MACHINES], *of_all]:
        grid.add_row(*(Text(one_line(cell).replace("× [", "×\n[")) for cell in row))
    left_out = [
        f"and {plural(len(every) - most, noun)}; --markdown shows all"
        for every, most, noun in (
            (of_machines, MOST_MACHINES, "more machine"),
            (others.same.backends, MOST_BACKENDS, "more backend"),
        )
        if len(every) > most
    ]
    return Group(grid, *(Text(f"- {line}") for line in [*left_out, *_below_the_machines(others)]))


def render_machines_in_markdown(title: str, found: OtherMachines) -> str:
    """The same in Markdown."""
    if found.same is None:
        return f"- {escaped(f'{title} is new: {found.reason}')}\n"
    heading = Heading(words=f"{title}: {title_of(found.same)}", level=3)
    below = Bullets(items=_below_the_machines(found))
    return markdown.render_markdown([heading, machines_table(found.same), below])


def _below_the_machines(others: OtherMachines) -> list[str]:
    """What is equal, what differs, and how to read the last rows."""
    assert others.same is not None
    rows = next(iter(others.same.machines.values())).rows
    threads, allocator, blas = (
        distinct_text(rows, column) for column in ("threads_per_rank", "allocator", "blas")
    )
    predicted = [
        backend
        for backend in others.same.backends
        if backend.spread and backend.spread.predicted_low is not None
    ]
    return [
        f"no verdict, since machines differ; equal are workload, {plural(threads, 'thread')} a rank, "
        f"allocator {allocator}, blas {blas}",
        *(["one more machine lies within the last row's interval with 95 %"] if predicted else []),
        *others.differences,
    ]


def _grid(title: str) -> Table:
    return Table(title=Text(one_line(title)), box=box.HORIZONTALS, padding=(0, 0, 0, 1), width=WIDTH)


def _cells(change: BackendChange) -> list[str]:
    memory, worse = change.memory_change, ", ".join(change.regressions)
    return [
        one_line(change.backend),
        change.base,
        change.new,
        ratio_and_interval(change.ratio),
        ratio_and_interval(change.speedup_change),
        ratio(memory.ratio) if memory else MISSING,
        f"{change.verdict} {f'REGRESSION: {worse}' if worse else ''}".strip() or MISSING,
    ]


def _below_the_table(changes: list[BackendChange], differences: list[str]) -> list[str]:
    notes = {c.ratio.note for c in changes if c.ratio and c.ratio.note}
    return [*sorted(notes), *(differences or ["nothing differs in the environment"])]
