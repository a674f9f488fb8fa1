"""After the timed launches: backends take turns at untimed steps under a profiler: where does time go?"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.launch.messages import FinishProfile, ProfileSteps, StepsProfiled, TimeBlock
from bench.measure.blocks import BlockTimer
from bench.measure.groups import GroupStarter
from bench.measure.launches import timed
from bench.measure.plans import ExplainPlan, Output
from bench.measure.progress import ProgressBar
from bench.measure.schedule import round_orders, steps_per_block
from bench.results import operator_kinds, side_files
from bench.results.atomic import reporting_write_errors
from bench.results.records import Record
from bench.results.side_files import BREAKDOWN

WARMUP_STEPS = 3
"""Before any is profiled, and profiled in vain: the first start of a profile takes time."""

MOST_WARMUPS = 6
"""How often so many steps are profiled in vain, until the heap has room for events beside the tensors: until
none has taken memory from the system `SETTLED_WARMUPS` times in a row."""

WARMUP_SECONDS = 1.5
"""Long steps are profiled in vain one by one, as they are counted."""

SETTLED_WARMUPS = 2

WHERE = "where the time goes, untimed"
"""Begins what the progress bar says."""

MOST_STEPS = 3
"""Of a backend in a round: ONNX Runtime's own file of events has to fit into memory."""

FEWEST_ROUNDS = 4
"""However long a step is: an interval over fewer says little."""


@dataclass
class Explanation:
    """Profiles the backends in fresh processes, in rounds, and writes `<comparison>.breakdown.csv`.

    What fails leaves a gap and a line on the terminal, no row: everything that is timed is there already.
    """

    plan: ExplainPlan
    output: Output
    records: Mapping[str, Record]
    starter: GroupStarter
    timer: BlockTimer
    bar: ProgressBar

    def is_missing(self, names: Sequence[str]) -> bool:
        """Whether it is wanted and one of these backends has none, or one of another comparison."""
        path = BREAKDOWN.path_of(self.output.csv)
        if not self.plan.wanted or not path.exists():
            return self.plan.wanted
        return not side_files.is_of(BREAKDOWN.read(path), self.records, names)

    def planned(self, backends: int) -> dict[str, int]:
        """How many things of each kind there are to do, for the progress bar."""
        if not self.plan.wanted:
            return {}
        launches = 1 if self.plan.all_resident else backends
        return {
            "profile start": launches,
            "profile set-up": backends,
            "profile": self.plan.rounds * launches,
        }

    def run(self, names: Sequence[str]) -> None:
        """Profile these backends, if that is wanted."""
        if not (self.plan.wanted and names):
            return
        rows: list[dict[str, Any]] = []
        for side_by_side in [names] if self.plan.all_resident else [[name] for name in names]:
            with ExitStack() as stack:
                rows += self._profile(side_by_side, stack)
        if rows:
            path = BREAKDOWN.path_of(self.output.csv)
            with reporting_write_errors(path):
                BREAKDOWN.write(path, rows)

    def _profile(self, names: Sequence[str], stack: ExitStack) -> list[dict[str, Any]]:
        """The rows of backends that take turns, whose groups are closed with `stack`."""
        groups: dict[str, Group] = {}
        self._start(names, groups, stack)
        step_seconds = self._warm_up(groups)
        self._run_rounds(names, groups, step_seconds)
        rows: list[dict[str, Any]] = []
        for name in list(groups):
            with self._leaving_a_gap(name, groups):
                rows += self._rows(name, groups[name].request(FinishProfile()))
                groups[name].end()
                groups.pop(name).close()
        return rows

    def _start(self, names: Sequence[str], groups: dict[str, Group], stack: ExitStack) -> None:
        """Start groups whose engines keep a profile, too, side by side."""
        with self.bar.doing("profile start", f"{WHERE}: starting {', '.join(names)}"):
            for name in names:
                with self._leaving_a_gap(name, groups):
                    spec = self.starter.spec(name, timed(1))
                    spec = dataclasses.replace(spec, profiled_groups=len(names))
                    folder = self.output.folder / "profile" / name
                    groups[name] = stack.enter_context(self.starter.start_spec(spec, folder))
            for name in list(groups):
                with self._leaving_a_gap(name, groups):
                    groups[name].connect()

    def _warm_up(self, groups: dict[str, Group]) -> dict[str, float]:
        """Everything before the first round; how many seconds a step of each backend takes."""
        step_seconds: dict[str, float] = {}
        for name in list(groups):
            with (
                self.bar.doing("profile set-up", f"{WHERE}: {name}, set-up"),
                self._leaving_a_gap(name, groups),
            ):
                self.timer.take_first_step(groups[name])
                answers = groups[name].request(TimeBlock(steps=WARMUP_STEPS))
                step_seconds[name] = max(answer.seconds for answer in answers) / WARMUP_STEPS
                self._settle(groups[name], step_seconds[name])
                groups[name].pause()
        return step_seconds

    def _settle(self, group: Group, step_seconds: float) -> None:
        """Profile steps in vain until a profile of them is what it will be."""
        steps = min(WARMUP_STEPS, steps_per_block(step_seconds, WARMUP_SECONDS))
        settled = 0
        for _ in range(MOST_WARMUPS):
            profiled = group.request(ProfileSteps(steps=steps, counted=False))
            settled = settled + 1 if all(answer.settled for answer in profiled) else 0
            if settled == SETTLED_WARMUPS:
                return

    def _run_rounds(
        self, names: Sequence[str], groups: dict[str, Group], step_seconds: Mapping[str, float]
    ) -> None:
        """Let the backends take turns at profiled steps, in fewer rounds if steps are long."""
        slowest = max(step_seconds.values(), default=self.plan.seconds)
        rounds = min(self.plan.rounds, max(FEWEST_ROUNDS, round(self.plan.seconds / slowest)))
        self.bar.expect({"profile": rounds - self.plan.rounds})
        each = self.plan.seconds / self.plan.rounds
        steps = {name: min(MOST_STEPS, steps_per_block(s, each)) for name, s in step_seconds.items()}
        for number, order in enumerate(round_orders(names, launch=1, rounds=rounds), start=1):
            where = f"{WHERE}, round {number}/{rounds}"
            with self.bar.doing("profile", f"{where}: {', '.join(order)}"):
                for name in [name for name in order if name in groups]:
                    with self._leaving_a_gap(name, groups):
                        groups[name].request(ProfileSteps(steps=steps[name], counted=True))
                        groups[name].pause()

    @contextmanager
    def _leaving_a_gap(self, name: str, groups: dict[str, Group]) -> Iterator[None]:
        """Turn a failure of this backend's profile into a line on the terminal, and close its group."""
        try:
            yield
        except (LaunchFailed, OSError) as failure:
            if group := groups.pop(name, None):
                group.close()
            reason = failure.message if isinstance(failure, LaunchFailed) else str(failure)
            self.bar.print_line(f"no breakdown of {name}: {reason}")

    def _rows(self, name: str, answers: Sequence[StepsProfiled]) -> list[dict[str, Any]]:
        return operator_kinds.rows_of_profile(
            [answer.rounds for answer in answers], described=side_files.describe(self.records[name])
        )
