"""Checkpoints: every backend saves its state, goes on, and a fresh group goes on from what was saved.

The two must have the same losses, as if nothing had happened. What fails leaves a row in
`<comparison>.checkpoint.csv`, and nothing else.
"""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.messages import (
    Build,
    CheckpointLoaded,
    CheckpointSaved,
    LoadCheckpoint,
    ParityTrained,
    SaveCheckpoint,
    TrainForParity,
    UseFirstBatches,
)
from bench.measure.answers import mean_over_ranks
from bench.measure.failures import Failures
from bench.measure.groups import GroupStarter
from bench.measure.launches import FROM_CHECKPOINT, Launch
from bench.measure.parity import Trajectory, largest_difference
from bench.measure.plans import CheckpointPlan, Output
from bench.measure.progress import ProgressBar
from bench.measure.running import RunningGroups
from bench.results import side_files
from bench.results.arithmetic import mib
from bench.results.atomic import reporting_write_errors
from bench.results.records import Record
from bench.results.side_files import CHECKPOINTS

STEPS_BEFORE = 1
"""That are taken after the parity launch's own and before a save: the next batch is then not the first."""

STEPS_AFTER = 3
"""That are taken after a save, and again after loading it.

The first has the weights that were saved: a lost state of the optimizer is seen from the second on."""

SAME = 1e-5
"""By what share losses and gradient norms may differ: what a sum's order does in fp32. A lost state of AdamW
changes the second loss by a hundred times as much."""


@dataclass
class _Found:
    """What is known of one backend's checkpoint."""

    saved: Sequence[CheckpointSaved] = ()
    loaded: Sequence[CheckpointLoaded] = ()
    went_on: Trajectory | None = None
    loaded_went_on: Trajectory | None = None
    failure: LaunchFailed | None = None


@dataclass
class AfterCheckpoint:
    """Saves at the end of the parity launch, in which dropout is off, and resumes in a launch of its own."""

    plan: CheckpointPlan  # what was trained before
    output: Output
    records: Mapping[str, Record]  # by backend
    starter: GroupStarter  # starts the groups that resume
    failures: Failures  # of the comparison; a checkpoint adds none
    bar: ProgressBar  # says what is done

    def __post_init__(self) -> None:
        self._found: dict[str, _Found] = {}

    def use(self, groups: RunningGroups) -> None:
        """Let each group save its state and go on; one that cannot is closed, since its rank has ended."""
        for name in list(groups):
            found = self._found[name] = _Found()
            with self.bar.doing("checkpoint", f"{name} saves a checkpoint, and goes on"):
                try:
                    # Rank 0 of the reference may have counted FLOPs on a batch more: all begin anew.
                    groups[name].request(UseFirstBatches(count=self.plan.batches))
                    groups[name].request(TrainForParity(steps=STEPS_BEFORE))
                    request = SaveCheckpoint(folder=str(self._folder(name)), steps=STEPS_BEFORE)
                    found.saved = groups[name].request(request)
                    found.went_on = _trajectory(groups[name].request(TrainForParity(steps=STEPS_AFTER)))
                except LaunchFailed as failure:
                    found.failure = failure
                    groups.close_group(name)

    def finish(self) -> None:
        """Let fresh groups go on from what was saved, and write what came of it."""
        for name, found in self._found.items():
            if found.failure is None:
                with self.bar.doing("checkpoint", f"{name} goes on from its checkpoint"):
                    self._go_on(name, found)
            shutil.rmtree(self._folder(name), ignore_errors=True)  # three times as large as the model
        if self._found:
            path = CHECKPOINTS.path_of(self.output.csv)
            rows = [self._row(name, found) for name, found in self._found.items()]
            with reporting_write_errors(path):
                CHECKPOINTS.write(path, rows)

    def _go_on(self, name: str, found: _Found) -> None:
        def keep(_: str, __: Launch, failure: LaunchFailed) -> bool:
            found.failure = failure
            return True

        with RunningGroups(FROM_CHECKPOINT, self.starter, self.failures, recover=keep) as groups:
            groups.start([name])
            if name not in groups:
                return
            with groups.recording_failure(name):
                group = groups[name]
                group.request(Build())
                group.request(UseFirstBatches(count=self.plan.batches))
                found.loaded = group.request(LoadCheckpoint(folder=str(self._folder(name))))
                found.loaded_went_on = _trajectory(group.request(TrainForParity(steps=STEPS_AFTER)))
            groups.end()

    def _folder(self, name: str) -> Path:
        return self.output.checkpoints / name

    def _row(self, name: str, found: _Found) -> dict[str, Any]:
        status, message, difference = judge(found.failure, found.went_on, found.loaded_went_on)
        row = side_files.describe(self.records[name]) | {"status": status, "message": message}
        if found.saved:
            row |= {
                "steps": self.plan.steps + STEPS_BEFORE,
                "save_s": max(one.seconds for one in found.saved),
                "checkpoint_mib": mib(sum(one.bytes for one in found.saved)),
            }
        if found.loaded:
            row["load_s"] = max(one.seconds for one in found.loaded)
        return row | {"difference": difference}


def judge(
    failure: LaunchFailed | None, went_on: Trajectory | None, loaded: Trajectory | None
) -> tuple[str, str, float | None]:
    """Status and message of a checkpoint, and how far what loaded it is from what went on, relatively."""
    if failure is not None:
        return failure.status, failure.message, None
    assert went_on is not None, "it has saved"
    assert loaded is not None, "it has loaded"
    figures = [*went_on.losses, *went_on.gradient_norms, *loaded.losses, *loaded.gradient_norms]
    if not all(one > 0 and math.isfinite(one) for one in figures):
        return "diverged", "a loss or gradient around its checkpoint is zero or not finite", None
    difference = max(
        largest_difference(loaded.losses, went_on.losses),
        largest_difference(loaded.gradient_norms, went_on.gradient_norms),
    )
    if difference > SAME:
        words = f"what goes on from its checkpoint differs by {difference:.2g} from what went on without"
        return "diverged", words, difference
    return "ok", "", difference


def _trajectory(answers: Sequence[ParityTrained]) -> Trajectory:
    return Trajectory(
        losses=mean_over_ranks([answer.losses for answer in answers]),
        gradient_norms=mean_over_ranks([answer.gradient_norms for answer in answers]),
    )
