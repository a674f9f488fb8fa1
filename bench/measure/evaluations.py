"""The way to a target: after each timed block the loss on held-out data, which all backends compute alike."""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.launch.messages import Evaluate
from bench.measure.launches import Launch
from bench.measure.ledger import Ledger
from bench.measure.plans import ConvergePlan, Output
from bench.measure.resume import EarlierRun
from bench.results import arithmetic, side_files
from bench.results.atomic import reporting_write_errors
from bench.results.records import Phase, Record
from bench.results.side_files import HELD_OUT_LOSSES
from bench.results.validity import find_contamination

Row = dict[Any, Any]


@dataclass
class Evaluations:
    """Asks for held-out losses between the blocks, and keeps the file about them."""

    plan: ConvergePlan | None  # how; None if nobody wants to know
    output: Output
    ledger: Ledger  # that has the seconds
    earlier: EarlierRun  # whose launches stay in the file

    def __post_init__(self) -> None:
        self._path = HELD_OUT_LOSSES.path_of(self.output.csv)
        self._rows: dict[tuple[int, str], list[Row]] = defaultdict(list)
        self._earlier: list[Row] = [] if self.plan is None else self._kept(self.plan, self.earlier)
        self._woken: dict[tuple[int, str], float] = {}
        # By launch and evaluation: the backend that came first, and its steps.
        self._steps: dict[tuple[int, int], tuple[str, int]] = {}

    def note_wake(self, name: str, launch: Launch, seconds: float) -> None:
        """Count what the last warm-up took, which is in no record."""
        self._woken[launch.number, name] = seconds

    def evaluate(self, group: Group, name: str, launch: Launch) -> None:
        """Ask a group, which has just been built or timed, for its held-out loss.

        Raises:
            LaunchFailed: the loss is not finite, or this backend has not taken as many steps as another.
        """
        if self.plan is None:
            return
        answers = group.request(Evaluate())
        key = launch.number, name
        number, steps = len(self._rows[key]), answers[0].steps
        loss = arithmetic.mean_of_sums(
            [answer.loss_sum for answer in answers], [answer.predicted for answer in answers]
        )
        if not math.isfinite(loss):
            raise LaunchFailed("diverged", f"the held-out loss is {loss} after {steps} steps")
        other, expected = self._steps.setdefault((launch.number, number), (name, steps))
        if steps != expected:
            raise LaunchFailed(
                "invalid", f"it is evaluated after {steps} steps, and {other} was after {expected}"
            )
        record = self.ledger.records[key]
        seconds = sum(map(_slowest, record.blocks))
        self._rows[key].append(
            {
                **side_files.describe(record),
                "launch": launch.number,
                "seed": record.seed + self.plan.seed_step * launch.number,
                "evaluation": number,
                "steps": steps,
                "seconds": seconds,
                "seconds_with_start": seconds + _start_of(record) + self._woken.get(key, 0.0),
                "disturbed": int(self._is_disturbed(self.plan, record)),
                "held_out_loss": loss,
                "target_loss": self.plan.target,
                "margin_loss": self.plan.margin,
            }
        )

    def write(self) -> None:
        """Replace the file by what is known now; a launch that failed is left out."""
        if self.plan is None:
            return
        made = [
            row for key in self._rows if self.ledger.records[key].status == "ok" for row in self._rows[key]
        ]
        rows = [*self._earlier, *made]
        if rows:
            with reporting_write_errors(self._path):
                HELD_OUT_LOSSES.write(self._path, rows)

    @staticmethod
    def _is_disturbed(plan: ConvergePlan, record: Record) -> bool:
        last = record.blocks[-1:]
        return any(find_contamination(block, plan.cores_per_rank) for block in last)

    def _kept(self, plan: ConvergePlan, earlier: EarlierRun) -> list[Row]:
        """What an earlier run's file holds of launches that are kept, and that went to their end."""
        launches = {(row["backend"], row["launch"]) for row in earlier.rows}
        if not launches or not self._path.exists():
            return []
        hashes = {row["config_hash"] for row in earlier.rows}
        table = HELD_OUT_LOSSES.read(self._path)
        whole = table.groupby(["backend", "launch"])["evaluation"].transform("size") == plan.rounds + 1
        rows = table[whole & table["config_hash"].isin(hashes)].to_dict("records")
        return [row for row in rows if (row["backend"], row["launch"]) in launches]


def _start_of(record: Record) -> float:
    """Seconds of what comes before the timed blocks, as far as it is on record."""
    once = [phase for phase in (record.setup, record.first_step) if phase is not None]
    return sum(map(_slowest, [*once, *record.warm_up]))


def _slowest(phase: Phase) -> float:
    return arithmetic.block_seconds(phase.seconds)
