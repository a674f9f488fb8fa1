"""What of an interrupted comparison is kept, chosen from its results file.

Nothing is matched by a name alone: the rows must have the hashes of the configuration and of the environment
that are wanted now. What failed for a reason that may have gone is tried again, even if no round is missing.
A block counts if the reference was measured in the same round; what is missing is counted for each backend.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from bench.config.measure import UNHASHED
from bench.errors import UserError
from bench.machine.environment import find_differences
from bench.measure.plan.plans import Output
from bench.results import csv_files
from bench.results.atomic import reporting_write_errors
from bench.results.columns import Rule, columns_with
from bench.results.environment_cell import parse_environment
from bench.results.records import Record
from bench.results.side_files import SideFile
from bench.statistics.comparability import MOST_DIFFERENCES
from bench.statistics.table_values import by_key, latest_overrides

ANEW = "go on with the same, or measure anew (`make bench` without resume=true), which replaces the file"

FINAL = ("untimed", "unsupported", "fallback", "diverged")
"""Statuses that another try would not change: such a backend keeps its row and is not tried again."""


@dataclass(frozen=True, kw_only=True)
class EarlierRun:
    """What this run takes over from an earlier one; by default nothing."""

    # of the results file: measured blocks, and the failures that are final
    rows: list[dict[Any, Any]] = field(default_factory=list)
    # rows of the other failures; they stay until their backend has been tried again
    retried: list[dict[Any, Any]] = field(default_factory=list)
    # how many rounds of each backend, of all launches together
    rounds: Mapping[str, int] = field(default_factory=dict)
    launches: int = 0  # the launches they belong to
    last_launch: int = 0  # the highest launch number so far; new ones count on from it
    steps: int = 0  # of a timed block; 0 if there is none yet
    # of each backend that has rounds, as they were measured
    micro_batches: Mapping[str, int] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()  # the backends whose failure is final
    dropped: int = 0  # how many blocks are left out, since the reference has none in their round

    def fewest_rounds(self, backends: Iterable[str]) -> int:
        """How many rounds each of `backends` has at least."""
        return min((self.rounds.get(name, 0) for name in backends), default=0)

    def summary(self, csv: Path) -> str:
        """What is taken over from `csv`, in a sentence for the user."""
        if not self.rows and not self.retried:
            return f"nothing to go on from in {csv}: the comparison is measured from the start"
        rounds = ", ".join(f"{count} of {name}" for name, count in self.rounds.items())
        sentence = f"going on with {csv}: rounds kept: {rounds or 'none'}"
        if self.dropped:
            sentence += f"; {self.dropped} without the reference are not"
        if self.retried:
            sentence += f"; tried again: {', '.join(sorted({row['backend'] for row in self.retried}))}"
        if self.failed:
            sentence += f"; not tried again: {', '.join(sorted(self.failed))}"
        return sentence


def take_over_earlier_run(
    output: Output, records: Mapping[str, Record], *, resume: bool, beside: Sequence[SideFile] = ()
) -> EarlierRun:
    """What an earlier run has left there, or refuse it; nothing unless this one is to resume it.

    Without timed launches the files `beside` the results come of the parity launch, all of which is made
    again where one lacks a backend.
    """
    if not resume:
        there = None
        with suppress(UserError):  # what cannot be read is replaced
            there = csv_files.read(output.csv)
        if there is not None:
            refuse_other_workload(there, records, file=str(output.csv))
        with reporting_write_errors(output.nothing_written_marker):
            output.nothing_written_marker.parent.mkdir(parents=True, exist_ok=True)
            output.nothing_written_marker.touch()
    if output.nothing_written_marker.exists() or not output.csv.exists():
        return EarlierRun()
    table, record = csv_files.read(output.csv), next(iter(records.values()))
    refuse_other_settings(table, record, file=str(output.csv))
    refuse_other_environment(table, records, file=str(output.csv))
    kept = rows_to_keep(table)
    untimed = [str(row["backend"]) for row in kept.rows if row["status"] == "untimed"]
    is_lacking = untimed and any(kind.lacks(output.csv, records, untimed) for kind in beside)
    return EarlierRun() if is_lacking else kept


def refuse_other_workload(table: pd.DataFrame, records: Mapping[str, Record], *, file: str) -> None:
    """Refuse to replace what was measured of another workload, such as before a default was changed."""
    for name, rows in table.groupby("backend"):
        record = records.get(str(name))
        if record is None:
            continue
        of_own_batch = record.workload.batch_rule != "equal"
        for column in (*columns_with(Rule.SET), *(["micro_batch"] * (not of_own_batch))):
            before, now = rows[column].iloc[-1], getattr(record.workload, column)
            if not pd.isna(before) and "" not in (before, now) and before != now:
                raise UserError(
                    f"{file} was measured with {column}={before}, and this comparison has {now}",
                    "move that file away, or choose another folder with study=…",
                )


def refuse_other_settings(table: pd.DataFrame, record: Record, *, file: str) -> None:
    """Refuse rows that were measured with other settings."""
    if set(table["config_hash"]) == {record.config_hash}:
        return
    before, now = by_key(latest_overrides(table)), by_key(record.overrides)
    default, without_effect = "by default", {f"measure.{key}" for key in ("launches", *UNHASHED)}
    keys = [key for key in sorted({*before, *now} - without_effect) if before.get(key) != now.get(key)]
    lines = [f"{key}: {before.get(key, default)}, now {now.get(key, default)}" for key in keys]
    differing = "; ".join(lines) or "the files that it names, or what is default"
    raise UserError(f"{file} was measured with other settings ({differing})", ANEW)


def refuse_other_environment(table: pd.DataFrame, records: Mapping[str, Record], *, file: str) -> None:
    """Refuse rows of a backend that were measured in another environment than the present one."""
    for row in table.drop_duplicates(["backend", "environment_hash"]).itertuples():
        record = records[row.backend]
        if row.environment_hash != record.environment_hash:
            differences = find_differences(parse_environment(row.environment), record.environment)
            differing = "; ".join(differences[:MOST_DIFFERENCES]) or "environment_hash"
            raise UserError(
                f"{file} was measured in another environment ({differing}) at commit {row.git_commit}",
                f"go on with the same, or measure anew, which replaces the file: {row.command}",
            )


def rows_to_keep(table: pd.DataFrame) -> EarlierRun:
    """The rows of a results file that a comparison of the same settings can go on from."""
    reference = table["reference"].iloc[0]
    measured = table["round"].notna()
    final = ~measured & table["status"].isin(FINAL)
    if reference in set(table[final]["backend"]):
        final |= ~measured & (table["status"] == "skipped")  # for this reason
    rounds = pd.MultiIndex.from_frame(table[["launch", "round"]])
    paired = measured & rounds.isin(rounds[measured & (table["backend"] == reference)])
    blocks = table[paired]
    failed = frozenset(table[final]["backend"])
    retried = ~measured & ~final & ~table["backend"].isin(failed)
    if retried.any() and (table["status"] == "untimed").any():
        return EarlierRun()  # the reference's losses are in no row, so all of the parity launch is made again
    return EarlierRun(
        rows=table[final | paired].to_dict("records"),
        retried=table[retried].to_dict("records"),
        rounds=blocks.drop_duplicates(["backend", "launch", "round"])["backend"].value_counts().to_dict(),
        launches=blocks["launch"].nunique(),
        last_launch=int(table["launch"].max()),
        steps=0 if blocks.empty else int(blocks["steps"].iloc[0]),
        micro_batches={
            str(name): int(size) for name, size in blocks.groupby("backend")["micro_batch"].first().items()
        },
        failed=failed,
        dropped=int((measured & ~paired).sum()),
    )
