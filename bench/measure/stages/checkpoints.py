"""Checkpoints: every backend saves its state, goes on, and a fresh group goes on from what was saved.

The two must have the same losses, as if nothing had happened. What fails leaves a row in
`<comparison>.checkpoint.csv`, and nothing else.
"""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.messages import (
    Build,
    CheckpointLoaded,
    CheckpointSaved,
    LoadCheckpoint,
    SaveCheckpoint,
    TrainForParity,
    UseFirstBatches,
)
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.launches import FROM_CHECKPOINT, Launch
from bench.measure.plan.plans import ParityPlan
from bench.measure.stages.judging import Trajectory, largest_difference, trajectory_of
from bench.measure.stages.stage import Run, Stage
from bench.results.arithmetic import mib
from bench.results.side_files import CHECKPOINTS

STEPS_BEFORE = 1
"""How many are taken before a save, after the parity launch's own: the next batch is then not the first."""

STEPS_AFTER = 3
"""How many are taken after a save, and again after loading it.

The first has the weights that were saved: a lost state of the optimizer is seen from the second on."""

SAME = 1e-5
"""By what share losses and gradient norms may differ: what a sum's order does in fp32. A lost state of AdamW
changes the second loss by a hundred times as much."""


@dataclass
class _Checkpoint:
    """What is known of one backend's checkpoint."""

    saved: Sequence[CheckpointSaved] = ()
    loaded: Sequence[CheckpointLoaded] = ()
    went_on: Trajectory | None = None
    loaded_went_on: Trajectory | None = None
    failure: LaunchFailed | None = None


@dataclass
class Checkpoints(Stage):
    """Saves at the end of the parity launch, in which dropout is off, and resumes in a launch of its own."""

    shared: Run
    plan: ParityPlan  # what was trained before

    def __post_init__(self) -> None:
        self._checkpoints: dict[str, _Checkpoint] = {}
        if self.is_missing():
            self.shared.when_trained.append(self.save)

    def is_missing(self) -> bool:
        """Whether a backend has no row yet."""
        return bool(self.shared.names) and self.shared.lacks(CHECKPOINTS, self.shared.names)

    def save(self, groups: RunningGroups, _: object) -> None:
        """Let each group save its state and go on; one that cannot is closed, since its rank has ended."""
        for name in list(groups):
            checkpoint = self._checkpoints[name] = _Checkpoint()
            with self.shared.bar.doing("checkpoint", f"{name} saves a checkpoint, and goes on"):
                try:
                    # Rank 0 of the reference may have counted FLOPs on a batch more: all begin anew.
                    groups[name].request(UseFirstBatches(count=self.plan.batches))
                    groups[name].request(TrainForParity(steps=STEPS_BEFORE))
                    request = SaveCheckpoint(folder=str(self._folder(name)), steps=STEPS_BEFORE)
                    checkpoint.saved = groups[name].request(request)
                    went_on = groups[name].request(TrainForParity(steps=STEPS_AFTER))
                    checkpoint.went_on = trajectory_of(went_on)
                except LaunchFailed as failure:
                    checkpoint.failure = failure
                    groups.close_group(name)

    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Let fresh groups go on from what was saved, and write what came of it."""
        for name, checkpoint in self._checkpoints.items():
            if checkpoint.failure is None:
                with self.shared.bar.doing("checkpoint", f"{name} goes on from its checkpoint"):
                    self._go_on(name, checkpoint)
            shutil.rmtree(self._folder(name), ignore_errors=True)  # three times as large as the model
        rows = [self._row(name, checkpoint) for name, checkpoint in self._checkpoints.items()]
        self.shared.write_beside(CHECKPOINTS, rows)
        return names

    def _go_on(self, name: str, checkpoint: _Checkpoint) -> None:
        def keep(_: str, __: Launch, failure: LaunchFailed, ___: str) -> None:
            checkpoint.failure = failure

        with self.shared.groups(FROM_CHECKPOINT, keep) as groups:
            groups.start([name])
            if name not in groups:
                return
            with groups.closing_if_it_fails(name):
                group = groups[name]
                group.request(Build())
                group.request(UseFirstBatches(count=self.plan.batches))
                checkpoint.loaded = group.request(LoadCheckpoint(folder=str(self._folder(name))))
                went_on = group.request(TrainForParity(steps=STEPS_AFTER))
                checkpoint.loaded_went_on = trajectory_of(went_on)
            groups.end()

    def _folder(self, name: str) -> Path:
        return self.shared.output.checkpoints / name

    def _row(self, name: str, checkpoint: _Checkpoint) -> dict[str, Any]:
        status, message, difference = judge(checkpoint.failure, checkpoint.went_on, checkpoint.loaded_went_on)
        row = self.shared.describe(name) | {"status": status, "message": message}
        if checkpoint.saved:
            row |= {
                "steps": self.plan.steps + STEPS_BEFORE,
                "save_s": max(answer.seconds for answer in checkpoint.saved),
                "checkpoint_mib": mib(sum(answer.bytes for answer in checkpoint.saved)),
            }
        if checkpoint.loaded:
            row["load_s"] = max(answer.seconds for answer in checkpoint.loaded)
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
    if not all(figure > 0 and math.isfinite(figure) for figure in figures):
        return "diverged", "a loss or gradient around its checkpoint is zero or not finite", None
    difference = max(
        largest_difference(loaded.losses, went_on.losses),
        largest_difference(loaded.gradient_norms, went_on.gradient_norms),
    )
    if difference > SAME:
        words = f"what goes on from its checkpoint differs by {difference:.2g} from what went on without"
        return "diverged", words, difference
    return "ok", "", difference
