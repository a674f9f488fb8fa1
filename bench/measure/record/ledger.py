"""What a comparison has measured so far: one record per backend and launch, and the CSV made of them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pandas as pd

from bench.errors import LaunchFailed
from bench.measure.plan.plans import PARITY, Launch, Output, timed
from bench.measure.record.resume import EarlierRun
from bench.results import csv_files
from bench.results.atomic import reporting_write_errors
from bench.results.records import NOT_TIMED, Block, Record
from bench.results.rows import rows_of_record


@dataclass
class Ledger:
    """The records of one comparison, each on disk as soon as it changes."""

    output: Output  # where to write
    templates: Mapping[str, Record]  # by backend, what each of its records holds from the start
    earlier: EarlierRun  # whose rows stay in the results file

    def __post_init__(self) -> None:
        self._earlier_rows, self._retried_rows = self.earlier.rows, self.earlier.retried
        self.records: dict[tuple[int, str], Record] = {}  # of this run, by launch number and backend
        # The CSV lines of each record, cached: formatting all again took a second per block at 80 launches.
        self._formatted: dict[tuple[int, str], tuple[Record, list[csv_files.Line]]] = {}

    def set_for_later_records(self, name: str, **known: Any) -> None:
        """Put these fields into every later record of this backend."""
        changed = dataclasses.replace(self.templates[name], **known)
        self.templates = {**self.templates, name: changed}

    def update(self, name: str, launch: Launch, **changes: Any) -> None:
        """Change this backend's record of this launch, also on disk; a missing record is made first."""
        record = dataclasses.replace(self._record(name, launch), **changes)
        self.records[launch.number, name] = record
        with reporting_write_errors(self.output.csv):
            record.save(self.output.folder_of(name, launch) / "record.json")

    def update_workload(self, name: str, launch: Launch, **changes: Any) -> None:
        """Change fields of the workload that are known only once there is a model."""
        record = self._record(name, launch)
        self.update(name, launch, workload=dataclasses.replace(record.workload, **changes))

    def add_block(self, name: str, launch: Launch, block: Block, absent: Mapping[str, str]) -> int:
        """Add a timed block, and why figures of it are absent; how many of its blocks are repetitions now."""
        record = self.records[launch.number, name]
        blocks = (*record.blocks, block)
        self.update(name, launch, blocks=blocks, absent=record.absent | dict(absent))
        return sum(block.attempt > 1 for block in blocks)

    def fail(self, name: str, launch: Launch, failure: LaunchFailed, log_tail: str) -> None:
        """Put a failure on record, and its details beside it."""
        folder = self.output.folder_of(name, launch)
        with reporting_write_errors(self.output.csv):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "error.txt").write_text(failure.details or failure.message, encoding="utf-8")
        self.update(name, launch, status=failure.status, message=failure.message, log_tail=log_tail)

    def forget(self, name: str, launch: Launch | None = None) -> None:
        """Leave out what was measured of this backend, in this launch or at all; raw records stay on disk."""
        if launch is not None:
            self.records.pop((launch.number, name), None)
            return
        self.records = {key: record for key, record in self.records.items() if key[1] != name}
        self._earlier_rows = [row for row in self._earlier_rows if row["backend"] != name]
        self._retried_rows = [row for row in self._retried_rows if row["backend"] != name]

    def write(self) -> None:
        """Write the results file anew."""
        if any(parts := self._parts()):
            with reporting_write_errors(self.output.csv):
                csv_files.write_formatted(self.output.csv, parts)
                self.output.nothing_written_marker.unlink(missing_ok=True)

    def launch_of(self, name: str, number: int) -> Launch:
        """The launch of a row.

        The results file has no column for the stage, so that of an earlier run's row follows from its number;
        what fails in the search is tried again by every run, and is on record.
        """
        if record := self.records.get((number, name)):
            return Launch(record.stage, number)
        return timed(number) if number > NOT_TIMED else PARITY

    def rows(self) -> pd.DataFrame:
        """The results file's rows as they are now."""
        return csv_files.table_of_lines(self._parts())

    def _parts(self) -> list[list[csv_files.Line]]:
        return [csv_files.format_rows(self._kept()), *map(self._format, self.records)]

    def _kept(self) -> list[dict[Any, Any]]:
        """An earlier run's rows, without failures of the backends that have been tried again since."""
        tried = {name for number, name in self.records if self._format((number, name))}
        return [*self._earlier_rows, *(row for row in self._retried_rows if row["backend"] not in tried)]

    def _format(self, key: tuple[int, str]) -> list[csv_files.Line]:
        """The lines of a record, which stay the same as long as it is the same object."""
        record = self.records[key]
        known = self._formatted.get(key)
        if known is None or known[0] is not record:
            known = self._formatted[key] = record, csv_files.format_rows(rows_of_record(record))
        return known[1]

    def _record(self, name: str, launch: Launch) -> Record:
        return self.records.get((launch.number, name)) or dataclasses.replace(
            self.templates[name],
            stage=launch.stage,
            launch=launch.number,
            started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )
