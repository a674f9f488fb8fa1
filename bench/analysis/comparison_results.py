"""The results of one comparison: its rows, and what follows from them, computed when first asked for."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from bench.results.column_arrays import ColumnArrays
from bench.results.environment_cell import latest_environment, machine_key
from bench.statistics.backend_blocks import blocks_of, find_peak_column
from bench.statistics.intervals import Speedup
from bench.statistics.summary import BackendSummary, summarise
from bench.statistics.table_values import at_largest_batch, distinct_text, latest_overrides, left_alone

SAME_PEAK = 0.02
"""Peaks that differ by less than this share are called the same: peaks have no interval."""


@dataclass(frozen=True, kw_only=True)
class ComparisonResults:
    """One results file, read once."""

    stem: str  # the file's name without its ending
    rows: pd.DataFrame  # its table, as `csv_files.read` returns it

    @cached_property
    def summaries(self) -> list[BackendSummary]:
        """One summary per backend, the reference first."""
        return summarise(self.rows)

    @cached_property
    def others(self) -> list[BackendSummary]:
        """The summaries of all backends but the reference."""
        return [summary for summary in self.summaries if not summary.is_reference]

    @property
    def best_pytorch(self) -> BackendSummary | None:
        """The fastest PyTorch, even if it is the only one; None if none was timed."""
        return next((summary for summary in self.summaries if summary.is_best_pytorch), None)

    def of(self, backend: str) -> BackendSummary | None:
        """The summary of one backend."""
        return next((summary for summary in self.summaries if summary.backend == backend), None)

    @property
    def base(self) -> BackendSummary | None:
        """The summary of the reference; None if it was not measured."""
        return self.of(self.reference)

    def speedup_between(self, backend: str, base: str) -> Speedup | None:
        """The speed-up of a backend over another, whichever is the reference; None without common rounds."""
        return blocks_of(self.rows, backend).speedup_over(blocks_of(self.rows, base))

    @cached_property
    def reference(self) -> str:
        """The backend that speed-ups are measured against."""
        return distinct_text(self.rows, "reference")

    @cached_property
    def at_largest(self) -> bool:
        """Whether each backend was measured at its own largest batch: a result of another kind."""
        return at_largest_batch(self.rows)

    @cached_property
    def uncontrolled(self) -> bool:
        """Whether threads or allocator were left alone on purpose, so that its speed-ups are no results."""
        return bool(left_alone(self.rows))

    @cached_property
    def is_timed(self) -> bool:
        """Whether blocks were timed: False if only parity was checked."""
        return {summary.status for summary in self.summaries} != {"untimed"}

    @cached_property
    def on_cpu(self) -> bool:
        """Whether the comparison ran on a CPU."""
        return distinct_text(self.rows, "device") == "cpu"

    @cached_property
    def machine_key(self) -> tuple[str, ...]:
        """Equal for comparisons on machines with the same CPU, cores and GPUs."""
        return machine_key(latest_environment(self.rows))

    @cached_property
    def overrides(self) -> list[str]:
        """The overrides of Hydra that measure it again."""
        return latest_overrides(self.rows)

    @cached_property
    def command(self) -> str:
        """The line to type that measures it again; empty if the file does not say."""
        return distinct_text(self.rows, "command")

    @cached_property
    def peak_column(self) -> str:
        """The column of the peaks of memory that count."""
        return find_peak_column(ColumnArrays(self.rows))
