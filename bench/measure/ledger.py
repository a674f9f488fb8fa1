"""What a comparison has left behind so far: one record per backend and launch, and the CSV made of them."""

import dataclasses
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd

from bench.config import identity
from bench.config.identity import measured_settings
from bench.config.schema import Config
from bench.errors import LaunchFailed
from bench.machine import environment, source_code
from bench.machine.telemetry.gpus import Gpu, short_name
from bench.measure.parity import Trajectory
from bench.measure.resume import Kept, kept
from bench.results import csv_files
from bench.results.disk import reporting_write_errors
from bench.results.environment_cell import format_environment
from bench.results.records import PARITY_LAUNCH, Record, Roofline, Trial, Workload
from bench.results.rows import rows_of_record


class Ledger:
    """The records of one comparison, each on disk as soon as it changes.

    Args:
        config: of the comparison.
        stem: the results file's name without its ending.
        gpus: the visible ones; none on a CPU.

    Attributes:
        folder: of the raw run: records, logs, specs.
        csv: the results file.
        kept: what an earlier run has left there and this one goes on from.
        records: of this run, by launch and backend.
        micro_batches: of the timed launches, by backend; where it is missing, the configured one.
        trials: of the search for it, by backend.
        roofline: of all backends, once it is known.

    Raises:
        UserError: the comparison is to be resumed and its results file does not fit, or is damaged.
    """

    def __init__(
        self, config: Config, stem: str, gpus: list[Gpu], *, cores_per_rank: int, command: str
    ) -> None:
        self.cores_per_rank = cores_per_rank
        self.command = command
        self.config = config
        self.stem = stem
        self.device = short_name(gpus[0].name) if gpus else "cpu"
        started = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")
        self.folder = Path(config.results_dir).resolve() / "runs" / stem / started
        self.csv = Path(config.results_dir) / f"{stem}.csv"
        self.records: dict[tuple[int, str], Record] = {}
        self.trajectories: dict[str, Trajectory] = {}
        self.loss_differences: dict[str, float] = {}
        self.environments = {
            name: identity.collect_environment(config, backend.stack)
            for name, backend in config.backends.items()
        }
        self.config_hash = identity.config_hash(config)
        self.commit = source_code.git_commit()
        # A new run replaces the file with its first row, not before. If it is interrupted until then, this
        # tells that the file is an older run's, from which there is nothing to go on.
        self._unwritten = self.folder.parent / "unwritten"
        if not config.resume:
            with reporting_write_errors(self._unwritten):
                self._unwritten.parent.mkdir(parents=True, exist_ok=True)
                self._unwritten.touch()
        self.kept = Kept() if self._unwritten.exists() or not self.csv.exists() else self._kept()
        self.micro_batches: dict[str, int] = {}
        if config.measure.batch == "max":
            self.micro_batches |= self.kept.micro_batches
        self.trials: dict[str, tuple[Trial, ...]] = {}
        self.roofline = Roofline()

    def update(self, name: str, number: int, **changes: Any) -> None:
        """Replace this backend's record of this launch, and keep it on disk."""
        record = self.records.get((number, name)) or self._opened(name, number)
        self.records[number, name] = dataclasses.replace(record, **changes)
        with reporting_write_errors(self.csv):
            self.records[number, name].save(self.folder_of(name, number) / "record.json")

    def fail(self, name: str, number: int, failure: LaunchFailed, log_tail: str) -> None:
        """Put a failure on record, and its details beside it."""
        folder = self.folder_of(name, number)
        with reporting_write_errors(self.csv):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "error.txt").write_text(failure.details or failure.message, encoding="utf-8")
        self.update(name, number, status=failure.status, message=failure.message, log_tail=log_tail)

    def forget(self, name: str) -> None:
        """Leave out all that was measured of this backend; its raw records stay on disk."""
        self.records = {key: record for key, record in self.records.items() if key[1] != name}
        self.kept = self.kept.without(name)

    def write(self) -> None:
        """Replace the results file by what is known now."""
        if rows := self._rows():
            with reporting_write_errors(self.csv):
                csv_files.write_rows(self.csv, rows)
                self._unwritten.unlink(missing_ok=True)

    def rows(self) -> pd.DataFrame:
        """The results file's rows as they are now."""
        return csv_files.table_of_rows(self._rows())

    def _rows(self) -> list[dict[Any, Any]]:
        new = [row for record in self.records.values() for row in rows_of_record(record)]
        tried = {row["backend"] for row in new}
        retried = [row for row in self.kept.retried if row["backend"] not in tried]
        return [*self.kept.rows, *retried, *new]

    def _kept(self) -> Kept:
        return kept(
            csv_files.read(self.csv),
            name=str(self.csv),
            config_hash=self.config_hash,
            environments={name: format_environment(one) for name, one in self.environments.items()},
            fingerprints={name: environment.hash_environment(one) for name, one in self.environments.items()},
        )

    def folder_of(self, name: str, number: int) -> Path:
        """Where one group's spec, log and record lie."""
        return self.folder / ("parity" if number == PARITY_LAUNCH else f"launch-{number}") / name

    def folder_of_trial(self, name: str, number: int) -> Path:
        """The same of one trial in the search for the largest micro-batch."""
        return self.folder / f"trial-{number}" / name

    def micro_batch(self, name: str, number: int) -> int:
        """Samples per rank of a backend in a launch; parity is checked at the configured one."""
        configured = self.config.micro_batch
        return configured if number == PARITY_LAUNCH else self.micro_batches.get(name, configured)

    def workload(self, name: str, number: int) -> Workload:
        """What this backend trains in this launch, as far as is known without a worker."""
        config = self.config
        return Workload(
            model=config.model.name,
            task=config.model.task,
            precision=config.precision.name,
            attention=config.attention_of(name),
            world_size=config.device.world_size,
            micro_batch=self.micro_batch(name, number),
            grad_accum=config.grad_accum,
            seq_len=config.seq_len,
            size=config.model.size,
            data=config.data.name if config.data.path is None else f"{config.data.name}:{config.data.path}",
            lengths=config.data.lengths if config.data.name == "synthetic" else "",
            checkpointing=config.checkpointing,
            batch_rule=config.measure.batch,
            memory_limit_gib=config.device.memory_limit_gib,
            nodes=config.device.nnodes,
        )

    def _opened(self, name: str, number: int) -> Record:
        config, backend = self.config, self.config.backends[name]
        trajectory = self.trajectories.get(name)
        return Record(
            comparison=self.stem,
            command=self.command,
            backend=name,
            reference=config.reference,
            engine=backend.engine,
            optimizer=backend.optimizer_on(config.device.type),
            sharding=backend.sharding,
            slowed_by=backend.slowed_by,
            launch=number,
            status="ok",
            started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            git_commit=self.commit,
            stack=self.environments[name]["stack"],
            device=self.device,
            threads_per_rank=config.device.threads,
            cores_per_rank=self.cores_per_rank,
            allocator=config.device.allocator,
            seed=config.seed,
            margin=config.measure.margin,
            until=config.measure.until,
            workload=self.workload(name, number),
            trials=self.trials.get(name, ()),
            roofline=self.roofline,
            parity_losses=trajectory.losses if trajectory else (),
            parity_gradient_norms=trajectory.gradient_norms if trajectory else (),
            loss_difference=self.loss_differences.get(name),
            config=measured_settings(config),
            config_hash=self.config_hash,
            environment=self.environments[name],
            environment_hash=environment.hash_environment(self.environments[name]),
        )
