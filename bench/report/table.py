"""One comparison as a Markdown page and as a table for the terminal."""

from collections.abc import Callable
from operator import attrgetter
from textwrap import fill
from typing import Literal

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from bench.analysis.steadiness import LOADER_SHARE, find_warnings
from bench.analysis.summary import BackendSummary, summarise
from bench.errors import PASSED
from bench.report import text
from bench.report.collection import Comparison
from bench.results.arithmetic import mib

Cell = Callable[[BackendSummary], str]

TERMINAL_WIDTH = 100


def markdown(comparison: Comparison) -> str:
    """The page of a comparison: table, what went wrong, and how it was measured."""
    rows, summaries = comparison.rows, comparison.summaries
    columns = _columns(rows, summaries)
    lines = [
        f"# {text.escaped(text.distinct(rows, 'comparison'))}",
        "",
        _line(list(columns)),
        _line(["---" if name in _TEXT_COLUMNS else "---:" for name in columns]),
        *(_line([text.escaped(cell(one)) for cell in columns.values()]) for one in summaries),
        "",
    ]
    notes = [f"- {text.escaped(one.backend)}: {text.escaped(_note(one))}" for one in _noted(summaries)]
    notes += [f"- warning: {text.escaped(str(warning))}" for warning in comparison.warnings]
    if comparison.uncontrolled:
        notes.append(f"- {text.LEFT_ALONE}")
    facts = [f"- {text.escaped(fact)}" for fact in [*_facts(rows), *_limits(summaries)]]
    facts.append("- figures, and every other comparison: [index.md](index.md)")
    return "\n".join([*lines, *([*notes, ""] if notes else []), *facts, ""])


def terminal(rows: pd.DataFrame) -> Table:
    """The same for a terminal, at most 100 columns wide: the verdict stands with its speed-up."""
    summaries = summarise(rows)
    columns = _columns(rows, summaries) | {_SPEEDUP: _speedup_and_verdict}
    for name in ("what runs", "verdict", _ROOFLINE, _STATE, _ENERGY):
        columns.pop(name, None)
    caption = [f"{one.backend}: {_note(one)}" for one in _noted(summaries)]
    caption += [f"warning: {warning}" for warning in find_warnings(rows)]
    caption += [text.workload(rows), text.hardware(rows), text.extent(rows), *_limits(summaries)]
    if shares := [f"{text.share(one.roofline_share)} ({one.backend})" for one in _of_matmul_rate(summaries)]:
        caption.append(f"of the matrix-product rate measured here: {', '.join(shares)}")
    table = Table(
        title=Text(text.one_line(text.distinct(rows, "comparison"))),
        caption=Text("\n".join(map(text.one_line, caption)), justify="left"),
        box=box.HORIZONTALS,
        padding=0,
        width=TERMINAL_WIDTH,
    )
    for name in columns:
        header = fill(name.replace("difference", "diff."), 8, break_long_words=False)
        justify: Literal["left", "right"] = "left" if name in _TEXT_COLUMNS else "right"
        # only names give way where space is short: a broken figure reads as another one
        table.add_column(header, justify=justify, overflow="fold", no_wrap=name != "backend")
    for one in summaries:
        table.add_row(*(Text(cell(one)) for cell in columns.values()))
    return table


_SPEEDUP = "speed-up [95 %]"
_ROOFLINE = "of matmul rate"
_STATE = "optimizer state MiB/rank"
_ENERGY = "energy J/sample"


def _columns(rows: pd.DataFrame, summaries: list[BackendSummary]) -> dict[str, Cell]:
    """Header and content of every column; memory is the device's where there is one."""
    roofline: dict[str, Cell] = {_ROOFLINE: lambda one: text.share(one.roofline_share)}
    on_cpu = text.distinct(rows, "device") == "cpu"
    memory = "host peak MiB/rank" if on_cpu else "device peak MiB"
    peak = attrgetter("host_peak_mib" if on_cpu else "device_peak_mib")
    return {
        "backend": lambda one: text.one_line(one.backend),
        "what runs": lambda one: f"{one.engine} + {one.optimizer} + {one.sharding}",
        **({"micro-batch": _micro_batch} if text.at_largest(rows) else {}),
        "samples/s": lambda one: text.number(one.samples_per_s),
        _SPEEDUP: _speedup,
        "verdict": _verdict,
        **(roofline if _of_matmul_rate(summaries) else {}),
        memory: lambda one: text.number(peak(one)),
        _STATE: _optimizer_state,
        **({} if on_cpu else {_ENERGY: lambda one: text.number(one.energy_per_sample_j)}),
        "set-up s": lambda one: text.number(one.setup_s, 3),
        "first step s": lambda one: text.number(one.first_step_s, 3),
        "break-even steps": _break_even,
        "loss difference": lambda one: text.small(one.loss_difference),
        "status": lambda one: one.status,
    }


_TEXT_COLUMNS = {"backend", "what runs", "verdict", "status"}


def _speedup(one: BackendSummary) -> str:
    if one.status != "ok":
        return one.status
    if one.speedup:
        return f"{text.ratio(one.speedup.ratio)} {text.interval(one.speedup)}"
    return text.ratio(1) if one.is_reference else text.MISSING


def _verdict(one: BackendSummary) -> str:
    if one.is_reference and one.status == "ok":
        return "reference"
    return one.verdict or text.MISSING


def _speedup_and_verdict(one: BackendSummary) -> str:
    if not one.speedup:
        return _speedup(one)
    return f"{text.ratio(one.speedup.ratio)} {one.verdict}\n{text.interval(one.speedup)}"


def _micro_batch(one: BackendSummary) -> str:
    return text.MISSING if one.micro_batch is None else f"{one.micro_batch:,}"


def _optimizer_state(one: BackendSummary) -> str:
    return text.number(None if one.optimizer_state_bytes is None else mib(one.optimizer_state_bytes))


def _break_even(one: BackendSummary) -> str:
    return text.MISSING if one.break_even_steps is None else f"{one.break_even_steps:,}"


def _of_matmul_rate(summaries: list[BackendSummary]) -> list[BackendSummary]:
    """The backends of which it is known."""
    return [one for one in summaries if one.roofline_share is not None]


def _noted(summaries: list[BackendSummary]) -> list[BackendSummary]:
    return [one for one in summaries if one.message or one.status not in PASSED]


def _note(one: BackendSummary) -> str:
    if one.status == "ok":
        return one.message
    return f"{one.status}: {one.message or 'no message'}"


def _facts(rows: pd.DataFrame) -> list[str]:
    """The caption: everything that a reader needs to judge or repeat the figures."""
    return [
        text.workload(rows),
        text.hardware(rows),
        text.versions(rows),
        *([f"made by: {command}"] if (command := text.distinct(rows, "command")) else []),
        f"{text.extent(rows)}. {text.METHOD}{text.stopped(rows)} Peak memory is that of the timed blocks.",
    ]


def _limits(summaries: list[BackendSummary]) -> list[str]:
    """Whether loader or device limits each backend; nothing where batches were there beforehand."""
    known = [(one.backend, one.loader_share) for one in summaries if one.loader_share is not None]
    by_loader = [(name, share) for name, share in known if share > LOADER_SHARE]
    by_device = [(name, share) for name, share in known if share <= LOADER_SHARE]
    return [
        f"limited by the {what}: ranks waited {', '.join(f'{share:.1%} ({name})' for name, share in some)} "
        "of the time for batches"
        for what, some in (("loader", by_loader), ("device", by_device))
        if some
    ]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
