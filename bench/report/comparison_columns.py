"""The columns and the notes of the table of one comparison, on its page and in the terminal."""

from collections.abc import Callable
from operator import attrgetter

import pandas as pd

from bench.analysis.steadiness import LOADER_SHARE
from bench.analysis.table_values import at_largest_batch, distinct_text
from bench.errors import PASSED
from bench.report.content import summary_cells
from bench.report.words.formatting import count, number, one_line, share, small
from bench.statistics.summary import BackendSummary

Cell = Callable[[BackendSummary], str]

WHAT_RUNS = "what runs"
VERDICT = "verdict"
SETUP = "set-up s"
FIRST_STEP = "first step s"

TEXT_COLUMNS = {"backend", WHAT_RUNS, VERDICT, "status"}
"""All others hold numbers."""


def columns_of(rows: pd.DataFrame, summaries: list[BackendSummary]) -> dict[str, Cell]:
    """Header and content of every column; memory is the device's where there is one."""
    over_best: dict[str, Cell] = {summary_cells.OVER_BEST: summary_cells.over_best}
    roofline: dict[str, Cell] = {summary_cells.OF_LIMIT: lambda one: share(one.roofline_share)}
    on_cpu = distinct_text(rows, "device") == "cpu"
    memory = "host peak MiB/rank" if on_cpu else "device peak MiB"
    peak = attrgetter("host_peak_mib" if on_cpu else "device_peak_mib")
    return {
        "backend": lambda one: one_line(one.backend),
        WHAT_RUNS: summary_cells.what_runs,
        **({"micro-batch": lambda one: count(one.micro_batch)} if at_largest_batch(rows) else {}),
        "samples/s": lambda one: number(one.samples_per_s),
        summary_cells.SPEEDUP: summary_cells.speedup,
        VERDICT: summary_cells.verdict,
        **(over_best if any(one.over_best for one in summaries) else {}),
        **(roofline if with_limit(summaries) else {}),
        memory: lambda one: number(peak(one)),
        summary_cells.OPTIMIZER_STATE: lambda one: number(summary_cells.optimizer_state_mib(one)),
        **({} if on_cpu else {summary_cells.ENERGY: lambda one: number(one.energy_per_sample_j)}),
        SETUP: lambda one: number(one.setup_s, 3),
        FIRST_STEP: lambda one: number(one.first_step_s, 3),
        "break-even steps": lambda one: count(one.break_even_steps),
        "loss difference": lambda one: small(one.loss_difference),
        "status": lambda one: one.status,
    }


def with_limit(summaries: list[BackendSummary]) -> list[BackendSummary]:
    """The backends whose share of the limit is known."""
    return [one for one in summaries if one.roofline_share is not None]


def backend_notes(summaries: list[BackendSummary]) -> list[tuple[str, str]]:
    """The backends that have a message or failed, each with what is said of it."""
    return [(one.backend, _note(one)) for one in summaries if one.message or one.status not in PASSED]


def _note(one: BackendSummary) -> str:
    if one.status == "ok":
        return one.message
    return f"{one.status}: {one.message or 'no message'}"


def limited_by(summaries: list[BackendSummary]) -> list[str]:
    """Whether loader or device limits each backend; nothing where batches were there beforehand."""
    known = [(one.backend, one.loader_share) for one in summaries if one.loader_share is not None]
    shares: dict[str, list[str]] = {"loader": [], "device": []}
    for name, waited in known:
        shares["loader" if waited > LOADER_SHARE else "device"].append(f"{waited:.1%} ({name})")
    return [
        f"limited by the {what}: ranks waited {', '.join(some)} of the time for batches"
        for what, some in shares.items()
        if some
    ]
