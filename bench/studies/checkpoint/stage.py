"""Checkpoints: every backend saves its state, goes on, and a fresh group goes on from what was saved.

The two must have the same losses, as if nothing had happened. What fails leaves a row in
`<comparison>.checkpoint.csv`, and nothing else.
"""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.messages import Build, TrainForParity, UseBatches
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.plans import Launch
from bench.measure.stages.judging import Trajectory, relative_differences, trajectory_of
from bench.measure.stages.stage import Run, Stage
from bench.results.arithmetic import mib
from bench.results.records import LaunchStage
from bench.studies.checkpoint import FOLDER
from bench.studies.checkpoint.messages import LoadCheckpoint, SaveCheckpoint
from bench.studies.checkpoint.table import TABLE

FROM_CHECKPOINT = Launch(LaunchStage.PARITY, variant="from a checkpoint")

STEPS_BEFORE = 1
"""How many are taken before a save, after the parity launch's own: the next batch is then not the first."""

STEPS_AFTER = 3
"""How many are taken after a save, and again after loading it.

The first has the weights that were saved: a lost state of the optimizer is seen from the second on."""

SAME = 1e-5
"""By what share losses and gradient norms may differ: what a sum's order does in fp32. A lost state of AdamW
changes the second loss by a hundred times as much."""


class Checkpoints(Stage):
    """Saves at the end of the parity launch, in which dropout is off, and resumes in a launch of its own."""

    def __init__(self, shared: Run) -> None:
        super().__init__(shared)
        self._rows: dict[str, dict[str, Any]] = {}  # of each backend, as far as it came
        self._went_on: dict[str, Trajectory] = {}  # of each that saved its state and trained on
        if self.is_missing():
            shared.when_trained.append(self.save)

    def is_missing(self) -> bool:
        """Whether a backend has no row yet."""
        return self.shared.lacks(TABLE, self.shared.names)

    def save(self, groups: RunningGroups, _: object) -> None:
        """Let each group save its state and go on; one that cannot is closed, since its rank has ended."""
        for name in list(groups):
            self._rows[name] = self.shared.describe(name)
            with (
                self.shared.bar.doing("checkpoint", f"{name} saves a checkpoint, and goes on"),
                groups.closing_if_it_fails(name, self._fail),
            ):
                # Rank 0 of the reference may have counted FLOPs on a batch more: all begin anew.
                groups[name].request(UseBatches(numbers=self.shared.batches))
                groups[name].request(TrainForParity(steps=STEPS_BEFORE))
                request = SaveCheckpoint(folder=str(self._folder(name)), steps=STEPS_BEFORE)
                saved = groups[name].request(request)
                self._rows[name] |= {
                    "steps": self.shared.measure.parity_steps + STEPS_BEFORE,
                    "save_s": max(answer.seconds for answer in saved),
                    "checkpoint_mib": mib(sum(answer.bytes for answer in saved)),
                }
                self._went_on[name] = trajectory_of(groups[name].request(TrainForParity(steps=STEPS_AFTER)))

    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Let fresh groups go on from what was saved, and write what came of it."""
        for name, row in self._rows.items():
            if name in self._went_on:
                with self.shared.bar.doing("checkpoint", f"{name} goes on from its checkpoint"):
                    self._go_on(name, row)
            shutil.rmtree(self._folder(name), ignore_errors=True)  # three times as large as the model
        self.shared.write_beside(TABLE, list(self._rows.values()))
        return names

    def _go_on(self, name: str, row: dict[str, Any]) -> None:
        with self.shared.groups(FROM_CHECKPOINT, self._fail) as groups:
            groups.start([name])
            if name not in groups:
                return
            with groups.closing_if_it_fails(name):
                group = groups[name]
                group.request(Build())
                group.request(UseBatches(numbers=self.shared.batches))
                loaded = group.request(LoadCheckpoint(folder=str(self._folder(name))))
                row["load_s"] = max(answer.seconds for answer in loaded)
                resumed = trajectory_of(group.request(TrainForParity(steps=STEPS_AFTER)))
                row |= judge(self._went_on[name], resumed)
            groups.end()

    def _fail(self, name: str, _: Launch, failure: LaunchFailed, __: str) -> None:
        self._rows[name] |= {"status": failure.status, "message": failure.message}

    def _folder(self, name: str) -> Path:
        return self.shared.output.folder / FOLDER / name


def judge(went_on: Trajectory, resumed: Trajectory) -> dict[str, Any]:
    """Status and message of a checkpoint, and how far what resumed is from what went on, relatively."""
    figures = [*went_on.losses, *went_on.gradient_norms, *resumed.losses, *resumed.gradient_norms]
    if not all(figure > 0 and math.isfinite(figure) for figure in figures):
        message = "a loss or gradient around its checkpoint is zero or not finite"
        return {"status": "diverged", "message": message}
    difference = max(
        *relative_differences(resumed.losses, went_on.losses),
        *relative_differences(resumed.gradient_norms, went_on.gradient_norms),
    )
    if difference > SAME:
        message = f"what goes on from its checkpoint differs by {difference:.2g} from what went on without"
        return {"status": "diverged", "message": message, "difference": difference}
    return {"status": "ok", "message": "", "difference": difference}


STAGE = Checkpoints
