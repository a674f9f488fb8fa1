"""What a tracker is given of a comparison: settings, figures of each backend, and files."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.errors import PASSED
from bench.machine.environment import flatten
from bench.report.content.backend_columns import IN_SUMMARY, rows_of
from bench.report.content.collection import ReportedComparison
from bench.report.pages.comparison import comparison_blocks
from bench.report.render.markdown import escaped, render_markdown
from bench.results.environment_cell import latest_environment
from bench.statistics.summary import BackendSummary
from bench.statistics.table_values import distinct_text

SETTINGS = (
    *("comparison", "command", "started_at", "git_commit", "stack", "reference"),
    *("model", "size", "parameters", "trainable_parameters", "task", "data", "lengths", "padding_share"),
    *("precision", "checkpointing", "batch_rule", "memory_limit_gib"),
    *("device", "nodes", "world_size", "threads_per_rank", "cores_per_rank", "allocator", "blas"),
    *("micro_batch", "grad_accum", "global_batch", "seq_len", "seed", "margin"),
    *("config_hash", "environment_hash"),
)
"""Columns of the results file that say what was measured. Several values of one are separated by slashes."""

OF_A_BACKEND = ("engine", "engine_options", "optimizer", "sharding", "attention", "stack")
WORDS = ("status", "verdict", "message")

FIGURES = (
    *("samples_per_s", "speedup", "speedup_low", "speedup_high"),
    *("over_best", "over_best_low", "over_best_high"),
    *("peak_mib", "optimizer_state_bytes", "energy_per_sample_j"),
)
"""Columns of summary.csv that are figures of a backend: what it leaves blank is not logged."""

MORE_FIGURES = ("setup_s", "first_step_s", "break_even_steps", "loss_difference")
"""Figures that only the page of a comparison shows."""


@dataclass(frozen=True, kw_only=True)
class TrackedBackend:
    """One backend."""

    name: str
    settings: Mapping[str, str]  # what it is made of
    words: Mapping[str, str]  # its status, and what explains it
    # by name, with the units of summary.csv; one that is not known or not valid is not there
    figures: Mapping[str, float]
    samples_per_s_by_round: Sequence[float]  # of its valid rounds, in order, over all launches


@dataclass(frozen=True, kw_only=True)
class TrackedComparison:
    """One comparison, as plain values."""

    name: str  # of its results file, without the ending
    model: str
    started_at: str
    passed: bool  # whether every backend was ok, or parity alone was wanted of it
    settings: Mapping[str, str]
    backends: Sequence[TrackedBackend]
    page: str
    files: Sequence[Path]  # the results file and its page

    @property
    def started_s(self) -> float:
        """When it was measured, in seconds since 1970; 0 if the file does not say."""
        text = self.started_at.replace("Z", "+00:00")  # Python 3.10 knows no Z
        return datetime.fromisoformat(text).timestamp() if text else 0.0


def content_of(comparison: ReportedComparison, folder: Path) -> TrackedComparison:
    """What is logged of a comparison that has a file; its page is written into `folder`."""
    assert comparison.path is not None, "a comparison that is tracked has a file"
    page = folder / f"{comparison.stem}.md"
    text = f"# {escaped(comparison.title)}\n\n{render_markdown(comparison_blocks(comparison))}"
    page.write_text(text, encoding="utf-8")
    return TrackedComparison(
        name=comparison.stem,
        model=comparison.model,
        started_at=min(comparison.rows["started_at"], default=""),
        passed=all(summary.status in PASSED for summary in comparison.summaries),
        settings=_settings(comparison),
        backends=[_backend(comparison, summary) for summary in comparison.summaries],
        page=text,
        files=(comparison.path, page),
    )


def _settings(comparison: ReportedComparison) -> dict[str, str]:
    settings = {name: distinct_text(comparison.rows, name) for name in SETTINGS}
    environment = latest_environment(comparison.rows)
    settings |= {
        "started_at": min(comparison.rows["started_at"], default=""),
        "machine": comparison.hardware,
        "controlled": str(int(not comparison.uncontrolled)),  # 0: its speed-ups are no results
        "warnings": str(len(comparison.warnings)),
    }
    machine = flatten({name: environment.get(name) for name in ("python", "driver", "cpu", "packages")})
    settings |= {name: str(value) for name, value in machine.items() if value is not None}
    return {name: value for name, value in settings.items() if value}


def _backend(comparison: ReportedComparison, summary: BackendSummary) -> TrackedBackend:
    (row,) = [row for row in rows_of([comparison]) if row.summary is summary]
    figures = {name: IN_SUMMARY[name](row) for name in FIGURES}
    figures |= {name: getattr(summary, name) for name in MORE_FIGURES}
    words = {name: getattr(summary, name) for name in WORDS}
    blocks = comparison.rows[
        (comparison.rows["backend"] == summary.backend) & (comparison.rows["status"] == "ok")
    ]
    rounds = blocks.sort_values(["launch", "round"])["samples_per_s"].dropna()
    return TrackedBackend(
        name=summary.backend,
        settings={name: value for name in OF_A_BACKEND if (value := getattr(summary, name))},
        words={name: str(value) for name, value in words.items() if value},
        figures={name: number for name, value in figures.items() if (number := _number(value)) is not None},
        samples_per_s_by_round=[float(value) for value in rounds],
    )


def _number(value: object) -> float | None:
    """A finite number; None for what is missing."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
