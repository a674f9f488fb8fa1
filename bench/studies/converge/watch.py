"""The way to a target: after each timed block the loss on held-out data, which all backends compute alike."""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.measure.plan.plans import Launch
from bench.measure.stages.stage import Run
from bench.results import side_files
from bench.results.records import Phase, Record
from bench.results.validity import find_contamination
from bench.studies.converge.messages import Evaluate
from bench.studies.converge.settings import Settings
from bench.studies.converge.table import TABLE

Row = dict[Any, Any]


@dataclass
class Evaluations:
    """Asks for held-out losses between the blocks, and keeps the file about them."""

    shared: Run

    def __post_init__(self) -> None:
        self._rows: dict[tuple[int, str], list[Row]] = defaultdict(list)
        self._earlier = self._kept()
        # By launch and evaluation: the backend that came first, and its steps.
        self._steps: dict[tuple[int, int], tuple[str, int]] = {}

    def look(self, group: Group, name: str, launch: Launch) -> None:
        """Ask a group for its held-out loss; LaunchFailed if it is not finite, or steps are not equal."""
        measure = self.shared.measure
        assert isinstance(measure, Settings)
        answers = group.request(Evaluate())
        key = launch.number, name
        number, steps = len(self._rows[key]), answers[0].steps
        loss = sum(answer.loss_sum for answer in answers) / sum(answer.predicted for answer in answers)
        if not math.isfinite(loss):
            raise LaunchFailed("diverged", f"the held-out loss is {loss} after {steps} steps")
        other, expected = self._steps.setdefault((launch.number, number), (name, steps))
        if steps != expected:
            raise LaunchFailed(
                "invalid", f"it is evaluated after {steps} steps, and {other} was after {expected}"
            )
        record = self.shared.ledger.records[key]
        seconds = sum(map(_slowest, record.blocks))
        self._rows[key].append(
            {
                **side_files.describe(record),
                "launch": launch.number,
                "seed": self.shared.starter.spec(name, launch).seed,
                "evaluation": number,
                "steps": steps,
                "seconds": seconds,
                "seconds_with_start": seconds + _start_of(record),
                "disturbed": int(
                    any(find_contamination(block, record.cores_per_rank) for block in record.blocks[-1:])
                ),
                "held_out_loss": loss,
                "target_loss": measure.target_loss,
                "margin_loss": measure.margin_loss,
            }
        )

    def write(self) -> None:
        """Write the file anew; a launch that failed is left out."""
        records = self.shared.ledger.records
        ended_well = [rows for key, rows in self._rows.items() if records[key].status == "ok"]
        self.shared.write_beside(TABLE, [*self._earlier, *itertools.chain(*ended_well)])

    def _kept(self) -> list[Row]:
        """An earlier run's rows of launches that are kept and were not interrupted."""
        path, earlier = TABLE.path_of(self.shared.output.csv), self.shared.earlier
        launches = {(row["backend"], row["launch"]) for row in earlier.rows}
        if not launches or not path.exists():
            return []
        hashes = {row["config_hash"] for row in earlier.rows}
        table = TABLE.read(path)
        whole = (
            table.groupby(["backend", "launch"])["evaluation"].transform("size")
            == self.shared.measure.rounds + 1
        )
        rows = table[whole & table["config_hash"].isin(hashes)].to_dict("records")
        return [row for row in rows if (row["backend"], row["launch"]) in launches]


def _start_of(record: Record) -> float:
    """Seconds of what comes before the timed blocks, as far as it is on record."""
    once = [phase for phase in (record.setup, record.first_step) if phase is not None]
    return sum(map(_slowest, [*once, *record.warm_up]))


def _slowest(phase: Phase) -> float:
    return max(phase.seconds)


WATCH = Evaluations
