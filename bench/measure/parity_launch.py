"""The parity launch: every backend trains a few steps with dropout off and is compared with the reference."""

from collections.abc import Sequence
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.messages import (
    Build,
    Built,
    ParityTrained,
    Request,
    TrainForParity,
    UseFirstBatches,
)
from bench.measure.answers import mean_over_ranks, model_figures
from bench.measure.failures import Failures
from bench.measure.groups import GroupStarter
from bench.measure.launches import PARITY
from bench.measure.ledger import Ledger
from bench.measure.parity import Trajectory, check_parity
from bench.measure.plans import Output, ParityPlan
from bench.measure.progress import ProgressBar
from bench.measure.roofline import RooflineFinder
from bench.measure.running import RunningGroups


class ParityLaunch:
    """Runs once per comparison; the same launch counts the work of a step and times the devices' limit.

    Attributes:
        trajectories: losses and gradient norms of each backend that came to its end.
        loss_differences: of each backend that passed, the largest relative one from the reference's losses.
    """

    def __init__(
        self,
        plan: ParityPlan,
        output: Output,
        starter: GroupStarter,
        ledger: Ledger,
        failures: Failures,
        bar: ProgressBar,
    ) -> None:
        self._plan = plan
        self._output = output
        self._starter = starter
        self._ledger = ledger
        self._failures = failures
        self._bar = bar
        self._roofline = RooflineFinder(plan.reference, plan.stacks)
        self._models: dict[str, dict[str, Any]] = {}  # of each backend, what is known of its built model
        self._proofs: dict[str, dict[str, Any]] = {}  # and that its engine really ran
        self.trajectories: dict[str, Trajectory] = {}
        self.loss_differences: dict[str, float] = {}

    def planned(self, backends: int) -> int:
        """How many times groups are started, for the progress bar."""
        return 1 if self._plan.all_resident else backends

    def run(self, names: Sequence[str]) -> list[str]:
        """Train and compare these backends, the reference first; the names of those that passed."""
        for side_by_side in [names] if self._plan.all_resident else [[name] for name in names]:
            with self._bar.doing("parity", f"parity of {', '.join(side_by_side)} (dropout off)"):
                self._train(side_by_side)
        self._keep_roofline(names)
        passed: list[str] = []
        for name in [name for name in names if name in self.trajectories]:
            try:
                self._judge(name, passed)
            except LaunchFailed as failure:
                self._failures.record(name, PARITY, failure, log_tail="")
            else:
                passed.append(name)
        self._ledger.write()
        return passed

    def _judge(self, name: str, passed: Sequence[str]) -> None:
        """Compare one backend with the reference.

        Raises:
            LaunchFailed: it does not train like the reference, or the reference itself has failed.
        """
        plan, ours = self._plan, self.trajectories[name]
        if name != plan.reference and plan.reference not in passed:
            raise self._without_reference()
        difference = check_parity(
            ours, self.trajectories[plan.reference], plan.tolerance, plan.gradient_tolerance
        )
        self.loss_differences[name] = difference
        self._ledger.set_for_later_records(name, loss_difference=difference)
        if plan.parity_only:
            self._ledger.update_workload(name, PARITY, **self._models[name])
            self._ledger.update(name, PARITY, status="untimed", proof=self._proofs[name])

    def _train(self, names: Sequence[str]) -> None:
        """Train backends over the parity steps, their groups side by side: nothing here is timed."""
        reference = self._plan.reference
        with RunningGroups(PARITY, self._starter, self._failures) as groups:
            groups.start(names)
            if reference in groups:  # it saves the initial state that the others load
                self._ask(groups, [reference], Build())
            self._ask(groups, [name for name in groups if name != reference], Build())
            self._ask(groups, list(groups), UseFirstBatches(count=self._plan.batches))
            self._ask(groups, list(groups), TrainForParity(steps=self._plan.steps))
            if not self._plan.parity_only:
                self._roofline.find(groups)
            groups.end()

    def _ask(self, groups: RunningGroups, names: Sequence[str], request: Request[Any]) -> None:
        """Ask several groups for the same at once, and take their answers."""
        reference = self._plan.reference
        for name in names:
            with groups.recording_failure(name):
                if (
                    isinstance(request, Build)
                    and name != reference
                    and not self._output.initial_state.exists()
                ):
                    raise self._without_reference()
                groups[name].ask(request)
        for name in [name for name in names if name in groups]:
            with groups.recording_failure(name):
                self._keep_answers(name, groups[name].answers(request))

    def _keep_answers(self, name: str, answers: Sequence[Any]) -> None:
        if isinstance(answers[0], Built):
            self._models[name] = model_figures(answers)
            self._roofline.note_library(name, answers[0].library)
        elif isinstance(answers[0], ParityTrained):
            self._proofs[name] = answers[0].proof
            trajectory = Trajectory(
                losses=mean_over_ranks([answer.losses for answer in answers]),
                gradient_norms=mean_over_ranks([answer.gradient_norms for answer in answers]),
            )
            self.trajectories[name] = trajectory
            self._ledger.set_for_later_records(
                name, parity_losses=trajectory.losses, parity_gradient_norms=trajectory.gradient_norms
            )

    def _keep_roofline(self, names: Sequence[str]) -> None:
        """Put the work of a step and the devices' limit into every record from here on."""
        if self._plan.parity_only:
            return
        for name in names:
            self._ledger.set_for_later_records(name, roofline=self._roofline.found)
        for reason in self._roofline.found.absent:
            self._bar.print_line(f"not all is known about this device's limit: {reason}")

    def _without_reference(self) -> LaunchFailed:
        return LaunchFailed(
            "skipped", f"the reference backend {self._plan.reference} failed the parity launch"
        )
