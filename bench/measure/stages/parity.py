"""The parity launch: every backend trains a few steps with dropout off and is compared with the reference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.messages import (
    A,
    Build,
    Built,
    ExpectedTensor,
    ExpectedTensorsWritten,
    ParityTrained,
    Request,
    TrainForParity,
    UseFirstBatches,
    WriteExpectedTensors,
)
from bench.measure.groups.answers import mean_over_ranks, model_figures
from bench.measure.groups.running import RunningGroups
from bench.measure.groups.starting import GroupStarter
from bench.measure.plan.launches import PARITY, PARITY_IN_FP32, Launch
from bench.measure.plan.plans import Output, ParityPlan
from bench.measure.record.failures import Failures
from bench.measure.record.ledger import Ledger
from bench.measure.record.progress import ProgressBar
from bench.measure.stages.after_training import AfterTraining
from bench.measure.stages.judging import Trajectory, check_parity, check_tensors, judge_tensors
from bench.measure.stages.roofline import RooflineFinder
from bench.results.records import TensorVerdict

FP32 = "fp32"

MOST_COMPARED = 4
"""Steps after which tensors are compared: enough for every fault in tests/support/planted_faults.py."""


@dataclass
class ParityLaunch:
    """Runs once per comparison; the same launch counts the work of a step and times the devices' limit.

    Attributes:
        trajectories: losses and gradient norms of each backend that came to its end.
        loss_differences: of each backend that passed, the largest relative one from the reference's losses.
        tensor_verdicts: by backend and precision, on gradients, buffers and movements, worst first.
    """

    plan: ParityPlan
    output: Output
    starter: GroupStarter
    ledger: Ledger
    failures: Failures
    bar: ProgressBar
    after: AfterTraining

    def __post_init__(self) -> None:
        self._compared_steps = min(MOST_COMPARED, self.plan.steps)
        self._roofline = RooflineFinder(self.plan.reference, self.plan.stacks)
        self._models: dict[str, dict[str, Any]] = {}  # of each backend, what is known of its built model
        self._proofs: dict[str, dict[str, Any]] = {}  # and that its engine really ran
        self._expected: Mapping[str, ExpectedTensor] = {}  # empty: tensors are not compared
        self._differences: dict[str, dict[str, Mapping[str, float]]] = {}  # by precision and backend
        self.trajectories: dict[str, Trajectory] = {}
        self.loss_differences: dict[str, float] = {}
        self.tensor_verdicts: dict[str, dict[str, list[TensorVerdict]]] = {}

    def planned(self, backends: int) -> int:
        """How many times groups are started, for the progress bar."""
        times = 1 if self.plan.all_resident else backends
        in_fp32 = sum(precision != FP32 for precision in self.plan.precisions.values())
        return times + (min(1, in_fp32) if self.plan.all_resident else min(backends, in_fp32))

    def run(self, names: Sequence[str]) -> list[str]:
        """Train and compare these backends, the reference first; the names of those that passed."""
        for side_by_side in [names] if self.plan.all_resident else [[name] for name in names]:
            with self.bar.doing("parity", f"parity of {', '.join(side_by_side)} (dropout off)"):
                self._train(side_by_side)
            rounding = [name for name in side_by_side if self.plan.precisions[name] != FP32]
            if rounding:
                with self.bar.doing("parity", f"gradients of {', '.join(rounding)} in fp32"):
                    self._train_in_fp32([name for name in rounding if name in self.trajectories])
        self._keep_roofline(names)
        self.after.finish()
        passed: list[str] = []
        for name in [name for name in names if name in self.trajectories]:
            try:
                self._judge(name, passed)
            except LaunchFailed as failure:
                self.failures.record(name, PARITY, failure, log_tail="")
            else:
                passed.append(name)
        self.ledger.write()
        return passed

    def _judge(self, name: str, passed: Sequence[str]) -> None:
        """Compare one backend with the reference.

        Raises:
            LaunchFailed: it does not train like the reference, or the reference itself has failed.
        """
        plan, ours = self.plan, self.trajectories[name]
        if name != plan.reference and plan.reference not in passed:
            raise self._without_reference()
        self._judge_tensors(name)
        difference = check_parity(
            ours,
            self.trajectories[plan.reference],
            plan.tolerances[name],
            same_update=plan.updates[name] == plan.updates[plan.reference],
        )
        self.loss_differences[name] = difference
        self.ledger.set_for_later_records(name, loss_difference=difference)
        if plan.parity_only:
            self.ledger.update_workload(name, PARITY, **self._models[name])
            self.ledger.update(name, PARITY, status="untimed", proof=self._proofs[name])

    def _judge_tensors(self, name: str) -> None:
        """Compare gradients, buffers and movements, in every precision in which that can be judged.

        How far a tensor in 16 bits may be off is told by the reference in the same 16 bits. Where the
        reference has another precision, it is judged in fp32 alone, and beside that by its norm.

        Raises:
            LaunchFailed: one is off.
        """
        judged = {FP32, self.plan.precisions[self.plan.reference]}
        verdicts = {
            precision: judge_tensors(
                of[name],
                self._expected,
                precision,
                None if precision == FP32 else of.get(self.plan.reference, {}),
                same_update=not self.plan.updates[name],
            )
            for precision, of in self._differences.items()
            if of.get(name) and precision in judged
        }
        self.tensor_verdicts[name] = verdicts
        worst = {precision: found[0] for precision, found in verdicts.items()}
        self.ledger.set_for_later_records(name, worst_tensors=worst)
        for precision, found in verdicts.items():
            check_tensors(found, precision)

    def _train(self, names: Sequence[str]) -> None:
        """Train backends over the parity steps, their groups side by side: nothing here is timed."""
        reference = self.plan.reference
        first_batches = UseFirstBatches(count=self.plan.batches)
        with RunningGroups(PARITY, self.starter, self.failures) as groups:
            groups.start(names)
            if reference in groups:  # it saves what the others load, and what they should compute
                self._ask(groups, [reference], Build(), self._keep_model)
                self._ask(groups, [reference], first_batches)
                write = WriteExpectedTensors(steps=self._compared_steps)
                self._ask(groups, [reference], write, self._keep_expected)
            self._ask(groups, [name for name in groups if name != reference], Build(), self._keep_model)
            self._ask(groups, list(groups), first_batches)  # the reference begins anew
            self._ask(groups, list(groups), self._training(self.plan.steps), self._keep_training)
            if not self.plan.parity_only:
                self._roofline.find(groups)
            self.after.use(groups)
            groups.end()

    def _train_in_fp32(self, names: Sequence[str]) -> None:
        """Take the first steps once more in fp32, where no wrong tensor is hidden by rounding.

        A backend that cannot (a model may have room in 16 bits alone) is judged without it. One that is known
        to train in 16 bits alone is left out.
        """
        if not self._expected:
            return
        for name in [name for name in names if name in self.plan.without_fp32]:
            self.bar.print_line(
                f"{name}: its gradients are compared in {self.plan.precisions[name]} alone, "
                "since it has no fp32"
            )
        names = [name for name in names if name not in self.plan.without_fp32]
        with RunningGroups(PARITY_IN_FP32, self.starter, self.failures, recover=self._go_on) as groups:
            groups.start(names)
            self._ask(groups, list(groups), Build())
            self._ask(groups, list(groups), UseFirstBatches(count=self.plan.batches))
            training = self._training(self._compared_steps)
            self._ask(groups, list(groups), training, partial(self._keep_differences, FP32))
            groups.end()

    def _training(self, steps: int) -> TrainForParity:
        return TrainForParity(steps=steps, compared_steps=self._compared_steps if self._expected else 0)

    def _go_on(self, name: str, _: Launch, failure: LaunchFailed) -> bool:
        self.bar.print_line(f"{name}: its gradients are not compared in fp32: {failure.message}")
        return True

    def _ask(
        self,
        groups: RunningGroups,
        names: Sequence[str],
        request: Request[A],
        keep: Callable[[str, Sequence[A]], None] | None = None,
    ) -> None:
        """Ask several groups for the same at once, and take each one's answers."""
        for name in [name for name in names if name in groups]:
            with groups.recording_failure(name):
                if isinstance(request, Build):
                    self._check_initial_state(name)
                groups[name].ask(request)
        for name in [name for name in names if name in groups]:
            with groups.recording_failure(name):
                answers = groups[name].answers(request)
                if keep is not None:
                    keep(name, answers)

    def _check_initial_state(self, name: str) -> None:
        if name != self.plan.reference and not self.output.initial_state.exists():
            raise self._without_reference()

    def _keep_model(self, name: str, answers: Sequence[Built]) -> None:
        self._models[name] = model_figures(answers)
        self._roofline.note_library(name, answers[0].library)

    def _keep_expected(self, _: str, answers: Sequence[ExpectedTensorsWritten]) -> None:
        reason = next((answer.absent for answer in answers if answer.absent), "")
        self._expected = answers[0].expected
        if reason:
            compared = "in the first step alone" if self._expected else "by their norm alone"
            self.bar.print_line(f"gradients are compared {compared}, and weights not at all: {reason}")

    def _keep_training(self, name: str, answers: Sequence[ParityTrained]) -> None:
        self._keep_differences(self.plan.precisions[name], name, answers)
        self._proofs[name] = answers[0].proof
        self.trajectories[name] = trajectory = Trajectory(
            losses=mean_over_ranks([answer.losses for answer in answers]),
            gradient_norms=mean_over_ranks([answer.gradient_norms for answer in answers]),
        )
        self.ledger.set_for_later_records(
            name, parity_losses=trajectory.losses, parity_gradient_norms=trajectory.gradient_norms
        )

    def _keep_differences(self, precision: str, name: str, answers: Sequence[ParityTrained]) -> None:
        self._differences.setdefault(precision, {})[name] = answers[0].differences

    def _keep_roofline(self, names: Sequence[str]) -> None:
        """Put the work of a step and the devices' limit into every record from here on."""
        if self.plan.parity_only:
            return
        for name in names:
            self.ledger.set_for_later_records(name, roofline=self._roofline.found)
        for reason in self._roofline.found.absent:
            self.bar.print_line(f"not all is known about this device's limit: {reason}")

    def _without_reference(self) -> LaunchFailed:
        return LaunchFailed(
            "skipped", f"the reference backend {self.plan.reference} failed the parity launch"
        )
