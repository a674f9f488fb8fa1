"""The table of one pair of files, for the terminal and in Markdown."""

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from bench.compare.changes import Change
from bench.report.formatting import MISSING, one_line, ratio, ratio_and_interval
from bench.report.markdown import escaped, table

WIDTH = 100
"""Of the terminal, in characters."""

HEADERS = (
    "backend",
    "base samples/s",
    "new samples/s",
    "new / base [95 %]",
    "its speed-up [95 %]",
    "memory",
    "verdict",
)


def render_terminal(title: str, changes: list[Change], differences: list[str]) -> Group:
    """The table of one pair of files and what differs between them, at most 100 columns wide."""
    grid = Table(title=Text(one_line(title)), box=box.HORIZONTALS, padding=(0, 0, 0, 1), width=WIDTH)
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


def render_markdown(title: str, changes: list[Change], differences: list[str]) -> str:
    """The same in Markdown, to paste into a pull request."""
    return "\n".join(
        [
            f"### {escaped(title)}",
            "",
            *table(HEADERS, map(_cells, changes), numeric=HEADERS[1:-1]),
            *(f"- {escaped(line)}" for line in _below_the_table(changes, differences)),
            "",
        ]
    )


def _cells(change: Change) -> list[str]:
    memory = change.memory_change
    return [
        one_line(change.backend),
        change.base,
        change.new,
        ratio_and_interval(change.ratio),
        ratio_and_interval(change.speedup_change),
        ratio(memory.ratio) if memory else MISSING,
        _verdict(change),
    ]


def _below_the_table(changes: list[Change], differences: list[str]) -> list[str]:
    notes = {c.ratio.note for c in changes if c.ratio and c.ratio.note}
    return [*sorted(notes), *(differences or ["nothing differs in the environment"])]


def _verdict(change: Change) -> str:
    if not change.regressions:
        return change.verdict or MISSING
    return f"{change.verdict} REGRESSION: {', '.join(change.regressions)}".strip()
