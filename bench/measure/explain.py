"""After the timed launches: every backend takes a few untimed steps under a profiler: where does time go?"""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.messages import ProfileSteps
from bench.measure.blocks import BlockTimer
from bench.measure.groups import GroupStarter
from bench.measure.launches import timed
from bench.measure.plans import ExplainPlan, Output
from bench.measure.progress import ProgressBar
from bench.results import breakdown
from bench.results.disk import reporting_write_errors
from bench.results.records import Record

FEWEST_STEPS, MOST_STEPS = 4, 20
"""Of a profile: a steady mean, and a file of events that still fits into memory."""


class Explanation:
    """Profiles the backends, each alone in fresh processes, and writes `results/breakdown/<stem>.csv`.

    What fails leaves a gap and a line on the terminal, no row: everything that is timed is there already.
    """

    def __init__(
        self,
        plan: ExplainPlan,
        output: Output,
        records: Mapping[str, Record],
        starter: GroupStarter,
        timer: BlockTimer,
        bar: ProgressBar,
    ) -> None:
        self._plan = plan
        self._output = output
        self._records = records
        self._starter = starter
        self._timer = timer
        self._bar = bar

    def is_missing(self) -> bool:
        """Whether it is wanted and not there, or what is there is of another comparison."""
        path = breakdown.path_of(self._output.csv)
        if not self._plan.wanted or not path.exists():
            return self._plan.wanted
        table = breakdown.read(path)
        return any(
            set(table.loc[table["backend"] == name, column]) - {getattr(record, column)}
            for name, record in self._records.items()
            for column in ("config_hash", "environment_hash")
        )

    def planned(self, backends: int) -> dict[str, int]:
        """How many things of each kind there are to do, for the progress bar."""
        return {"profile": backends * self._plan.wanted}

    def run(self, names: Sequence[str]) -> None:
        """Profile these backends, if that is wanted."""
        if not self._plan.wanted:
            return
        rows: list[dict[str, Any]] = []
        for name in names:
            with self._bar.doing("profile", f"{name}: where its time goes (a profiled run, untimed)"):
                try:
                    rows += self._profile(name)
                except (LaunchFailed, OSError) as failure:
                    reason = failure.message if isinstance(failure, LaunchFailed) else str(failure)
                    self._bar.print_line(f"no breakdown of {name}: {reason}")
        if rows:
            path = breakdown.path_of(self._output.csv)
            with reporting_write_errors(path):
                breakdown.write(path, rows)

    def _profile(self, name: str) -> list[dict[str, Any]]:
        """The rows of one backend.

        Raises:
            LaunchFailed: it could not be profiled.
            OSError: there is no process, no socket or no room for the temporary folder.
        """
        spec = dataclasses.replace(self._starter.spec(name, timed(1)), profiled=True)
        with self._starter.start_spec(spec, self._output.folder / "profile" / name) as group:
            group.connect()
            self._timer.take_first_step(
                group
            )  # the steps that follow, to see how long they take, are warm-up
            steps = self._timer.steps_of_a_block(group, seconds=self._plan.seconds)
            steps = min(MOST_STEPS, max(FEWEST_STEPS, steps))
            answers = group.request(ProfileSteps(steps=steps))
            group.end()
        record = self._records[name]
        return breakdown.rows_of_profile(
            [answer.operators for answer in answers],
            steps=steps,
            seconds=[answer.seconds for answer in answers],
            described={
                "comparison": record.comparison,
                "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "git_commit": record.git_commit,
                "config_hash": record.config_hash,
                "environment_hash": record.environment_hash,
                "backend": name,
                "stack": record.stack,
            },
        )
