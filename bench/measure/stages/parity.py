"""The parity launch: every backend trains a few steps with dropout off and is compared with the reference."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from bench.config.choices import LOSS_TOLERANCE
from bench.errors import LaunchFailed
from bench.launch.agents import keep_parents
from bench.launch.messages import (
    A,
    Build,
    Built,
    ComputeLosses,
    ExpectedTensor,
    ExpectedTensorsWritten,
    ParityTrained,
    Request,
    TrainForParity,
    UseBatches,
    WriteExpectedTensors,
)
from bench.measure.groups.blocks import model_figures
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.plans import PARITY, PARITY_IN_FP32, Launch
from bench.measure.stages.judging import (
    Trajectory,
    check_parity,
    check_series,
    check_tensors,
    judge_tensors,
    mean_over_ranks,
    name_losses,
)
from bench.measure.stages.stage import Run, Stage
from bench.results.records import TensorVerdict

FP32 = "fp32"

MOST_BATCHES = 64
"""Micro-batches of each rank whose losses are compared: synthetic data have 8, and a dataset many."""

BEFORE, AFTER, IN_FP32 = "before training", "with dropout off", "in fp32"
"""The times at which losses of the timed micro-batches are compared, as messages name them."""

DISTINCT_STEPS = 4
"""Steps that all train different micro-batches; as many have their gradients compared."""


class Parity(Stage):
    """Runs once per comparison, and lets other stages use the groups that it has trained."""

    def __init__(self, shared: Run) -> None:
        super().__init__(shared)
        self._steps = shared.measure.parity_steps  # optimizer steps of each backend
        self._backends, self._reference = self.shared.plan.backends, self.shared.plan.reference
        self._built: dict[str, Sequence[Built]] = {}  # of each backend, by rank
        self._trained_batches = UseBatches(numbers=[])
        self._expected: Mapping[str, ExpectedTensor] = {}  # empty: tensors are not compared
        self._uncomputed = ""  # tensors that the reference could not compute, and why
        self._without_fp32: dict[str, str] = {}  # of each such backend, what is compared instead, and why
        # by precision and backend
        self._differences: dict[str, dict[str, Mapping[str, float]]] = defaultdict(dict)
        # by the time when they were computed and by backend, of all ranks one after the other
        self._losses: dict[str, dict[str, list[float]]] = defaultdict(dict)
        self.trajectories: dict[str, Trajectory] = {}  # of each backend that came to its end

    def is_missing(self) -> bool:
        """Whether backends are left to compare, if nothing is timed: their rows are the only result."""
        return not self.shared.measure.launches and bool(self.shared.names)

    def expected(self) -> dict[str, int]:
        """How many times groups are started."""
        rounds = [any(self._rounds(name) for name in side) for side in self.shared.sides(self.shared.names)]
        return {"parity": len(rounds) + sum(rounds)}

    def run(self, names: Sequence[str]) -> list[str]:
        """Train and compare these backends, the reference first; the names of those that passed."""
        with keep_parents(is_last=not self.shared.measure.launches):
            for side_by_side in self.shared.sides(names):
                with self.shared.bar.doing("parity", f"parity of {', '.join(side_by_side)} (dropout off)"):
                    self._train(side_by_side)
                if rounding := [name for name in side_by_side if self._rounds(name)]:
                    with self.shared.bar.doing("parity", f"gradients of {', '.join(rounding)} in fp32"):
                        self._train_in_fp32([name for name in rounding if name in self.trajectories])
        passed: list[str] = []
        for name in [name for name in names if name in self.trajectories]:
            try:
                self._judge(name, passed)
            except LaunchFailed as failure:
                self.shared.failures.record(name, PARITY, failure, log_tail="")
            else:
                passed.append(name)
        if others := [name for name in passed if name != self._reference]:
            train = f"{', '.join(others)} train{'s' * (len(others) == 1)}"
            self.shared.bar.print_line(f"parity: {train} like {self._reference}")
        self.shared.ledger.write()
        return passed

    def _rounds(self, name: str) -> bool:
        return self._backends[name].spec.precision.name != FP32

    def _judge(self, name: str, passed: Sequence[str]) -> None:
        backend, ledger = self._backends[name], self.shared.ledger
        if name != self._reference and self._reference not in passed:
            raise self._without_reference()
        verdicts = self._judge_tensors(name)
        differences = [*self._judge_batches(name)]
        for precision, of_tensors in verdicts.items():
            check_tensors(of_tensors, precision)
        difference = check_parity(
            self.trajectories[name],
            self.trajectories[self._reference],
            backend.tolerances,
            same_update=backend.update == self._backends[self._reference].update,
        )
        ledger.set_for_later_records(name, loss_difference=max(difference, *differences, 0.0))
        if not self.shared.measure.launches:
            ledger.update_workload(name, PARITY, **model_figures(self._built[name]))
            ledger.update(name, PARITY, status="untimed")

    def _judge_batches(self, name: str) -> Iterator[float]:
        """Compare the losses of the micro-batches that are timed; the largest difference each time."""
        backend, reference = self._backends[name], self._reference
        same_update = backend.update == self._backends[reference].update
        for when, of in self._losses.items():
            if name in of and reference in of and (same_update or when == BEFORE):
                tolerance = LOSS_TOLERANCE[FP32] if when == IN_FP32 else backend.tolerances.loss
                yield check_series(name_losses(self.shared.batches, when), of[name], of[reference], tolerance)

    def _judge_tensors(self, name: str) -> dict[str, list[TensorVerdict]]:
        """Compare gradients, buffers and weight updates, in every precision in which that can be judged.

        The reference in the same 16 bits shows how far a tensor in 16 bits may be off. Where the reference
        has another precision, the tensor is judged in fp32 alone, and also by its norm.
        """
        judged = {FP32, self._backends[self._reference].spec.precision.name}
        verdicts = {
            precision: judge_tensors(
                of[name],
                self._expected,
                precision,
                None if precision == FP32 else of.get(self._reference, {}),
                same_update=not self._backends[name].update,
            )
            for precision, of in self._differences.items()
            if of.get(name) and precision in judged
        }
        worst = {precision: of_tensors[0] for precision, of_tensors in verdicts.items()}
        note = "; ".join(filter(None, [self._uncomputed, self._without_fp32.get(name)]))
        self.shared.ledger.set_for_later_records(name, worst_tensors=worst, parity_note=note)
        return verdicts

    def _train(self, names: Sequence[str]) -> None:
        reference = self._reference
        pace, clock = self.shared.pace, self.shared.clock
        set_ups: dict[str, float] = {}
        with self.shared.groups(PARITY) as groups:
            start = clock()
            groups.start(names)
            pace.starts.append(clock() - start)
            for side in ([reference], [name for name in names if name != reference]):
                start = clock()
                self._built |= self._ask(groups, side, Build())
                set_ups |= dict.fromkeys(side, (clock() - start) / max(1, len(side)))
                if reference in side:  # it saves the weights that others load, and the expected tensors
                    write = WriteExpectedTensors(
                        steps=self._steps, batches=MOST_BATCHES, distinct=DISTINCT_STEPS
                    )
                    for written in self._ask(groups, side, write).values():
                        self._keep_expected(written)
            for name in list(groups) if not self.shared.batches else []:
                with groups.closing_if_it_fails(name):
                    raise self._without_reference()
            updates = {backend.update for backend in self._backends.values()}
            if len(updates) > 1:  # only with several: a module may count its forward passes
                self._compute_losses(groups, BEFORE)
            self._ask(groups, list(groups), self._trained_batches)  # the reference begins anew
            start = clock()
            trained = self._ask(groups, list(groups), self._training)
            took = clock() - start
            for name, answers in trained.items():
                self._keep_training(name, answers)
                seconds = max(statistics.median(answer.seconds[1:]) for answer in answers)
                pace.steps[name] = seconds / len(groups)  # the groups shared the cores
                set_ups[name] += max(0.0, took / len(groups) - self._steps * pace.steps[name])
            pace.set_ups += [set_ups[name] for name in trained]
            self._compute_losses(groups, AFTER)
            for use_trained in self.shared.when_trained:
                use_trained(groups, self._built)
            groups.end()

    def _train_in_fp32(self, names: Sequence[str]) -> None:
        """Take the first steps once more in fp32, where no wrong tensor is hidden by rounding.

        A backend that cannot (the model may fit in memory in 16 bits alone) is judged without these steps. A
        backend that only trains in 16 bits is left out.
        """
        if not self._expected:
            return
        for name in [name for name in names if not self._backends[name].has_fp32]:
            self._note_without_fp32(name, "it has none")
        with self.shared.groups(PARITY_IN_FP32, self._go_on) as groups:
            groups.start([name for name in names if self._backends[name].has_fp32])
            self._ask(groups, list(groups), Build())
            self._ask(groups, list(groups), self._trained_batches)
            trained = self._ask(groups, list(groups), self._training)
            for name, answers in trained.items():
                self._differences[FP32][name] = answers[0].differences
            self._compute_losses(groups, IN_FP32)
            groups.end()

    def _compute_losses(self, groups: RunningGroups, when: str) -> None:
        asked, request = list(groups), ComputeLosses(numbers=self.shared.batches)
        answered = self._ask(groups, asked, request)
        for name in asked:
            if name in answered:
                self._losses[when][name] = [loss for answer in answered[name] for loss in answer.losses]
            elif when == AFTER:  # it cannot train the timed batches, as its row says
                self.trajectories.pop(name, None)

    @property
    def _training(self) -> TrainForParity:
        return TrainForParity(steps=self._steps, compared=bool(self._expected))

    def _go_on(self, name: str, _: Launch, failure: LaunchFailed, __: str) -> None:
        self._note_without_fp32(name, failure.message)

    def _note_without_fp32(self, name: str, why: str) -> None:
        own, of_reference = (self._backends[one].spec.precision.name for one in (name, self._reference))
        compared = f"in {own} alone" if own == of_reference else "by their norm alone"
        self._without_fp32[name] = f"tensors are compared {compared}, not in fp32: {why}"
        self.shared.bar.print_line(f"{name}: {self._without_fp32[name]}")

    def _ask(
        self, groups: RunningGroups, names: Sequence[str], request: Request[A]
    ) -> dict[str, Sequence[A]]:
        """Send a request to several groups at once; the answers of those that did not fail, by rank."""
        answers: dict[str, Sequence[A]] = {}
        for name in [name for name in names if name in groups]:
            with groups.closing_if_it_fails(name):
                is_built = isinstance(request, Build) and name != self._reference
                if is_built and not self.shared.output.initial_state.exists():
                    raise self._without_reference()
                groups[name].ask(request)
        for name in [name for name in names if name in groups]:
            with groups.closing_if_it_fails(name):
                answers[name] = groups[name].answers(request)
        return answers

    def _keep_expected(self, answers: Sequence[ExpectedTensorsWritten]) -> None:
        reason = next((answer.absent for answer in answers if answer.absent), "")
        self._expected = answers[0].expected
        self.shared.batches[:] = [answer.batches for answer in answers]
        self._trained_batches = UseBatches(numbers=[answer.trained for answer in answers])
        if reason:
            compared = "in the first step alone" if self._expected else "by their norm alone"
            self._uncomputed = f"gradients are compared {compared}, and weights not at all: {reason}"
            self.shared.bar.print_line(self._uncomputed)

    def _keep_training(self, name: str, answers: Sequence[ParityTrained]) -> None:
        precision = self._backends[name].spec.precision.name
        self._differences[precision][name] = answers[0].differences
        self.trajectories[name] = trajectory = Trajectory(
            losses=mean_over_ranks([answer.losses for answer in answers]),
            gradient_norms=mean_over_ranks([answer.gradient_norms for answer in answers]),
        )
        self.shared.ledger.set_for_later_records(
            name,
            proof=answers[0].proof,
            parity_losses=trajectory.losses,
            parity_gradient_norms=trajectory.gradient_norms,
        )

    def _without_reference(self) -> LaunchFailed:
        return LaunchFailed("skipped", f"the reference backend {self._reference} failed the parity launch")
