"""After everything else: backends take turns at untimed steps under a profiler: where does time go?"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.agents import keep_parents
from bench.launch.group import Group
from bench.launch.messages import TimeBlock
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.plans import Launch, timed
from bench.measure.plan.schedule import round_orders, steps_per_block
from bench.measure.record.progress import describe_duration
from bench.measure.stages.stage import Stage
from bench.results.validity import find_competition
from bench.studies.explain.messages import FinishProfile, ProfileSteps
from bench.studies.explain.operator_kinds import rows_of_profile
from bench.studies.explain.table import TABLE

WARMUP_STEPS = 2  # how many are taken before any is profiled: the first start of a profile takes time

MOST_WARMUPS = 6
"""How often the steps of a round are profiled without counting, until the heap has room for events beside the
tensors: until in `SETTLED_WARMUPS` profiles in a row no step has taken memory from the system."""

SETTLED_WARMUPS = 2

TYPICAL_WARMUPS, PROFILER_SECONDS, COLD = 2.5, 0.3, 1.5
"""To estimate the time that is left: the typical number of these, the seconds that each takes besides its
steps, and how many times as long as a step the slowest one before them takes, which decides on the rounds.
"""

WHERE = "where the time goes, untimed"  # the beginning of the progress bar's text

MOST_STEPS = 3
"""Most steps of a backend in a round: ONNX Runtime's own file of events has to fit into memory."""

FEWEST_ROUNDS, MOST_ROUNDS = 4, 8
"""In how many rounds steps are profiled: backends take turns, so that a slower machine slows them all.
However long a step is, an interval over fewer says little."""

SECONDS = 3.0  # how long a backend's profiled steps should last about, all rounds together


class Profiles(Stage):
    """Profiles backends in fresh processes, in rounds: `<comparison>.breakdown.csv`; failures leave gaps."""

    after_verdict = "to say why"

    def is_missing(self) -> bool:
        """Whether a backend with timed blocks has no profile, or one of another comparison."""
        return self.shared.lacks(TABLE, self.shared.timed_names())

    def expected(self) -> dict[str, int]:
        """Starts, set-ups, and rounds."""
        backends = len(self.shared.names)
        launches = len(self.shared.sides(self.shared.names))
        return {"profile start": launches, "profile set-up": backends, "profile": MOST_ROUNDS * launches}

    def guess(self) -> dict[str, float]:
        """How long the profiles take, by the pace; a step goes before each that is profiled."""
        pace, backends = self.shared.pace, len(self.shared.names)
        a_profile = 2 * _steps_of_round(pace.step or 1.0) * pace.step + PROFILER_SECONDS
        return {
            "profile start": pace.start / len(self.shared.sides(self.shared.names)),
            "profile set-up": pace.warm_up(WARMUP_STEPS) + TYPICAL_WARMUPS * a_profile,
            # as many as MOST_ROUNDS are expected
            "profile": backends * a_profile * self._rounds(COLD * pace.step) / MOST_ROUNDS,
        }

    @keep_parents()
    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Profile these backends, unless they have been."""
        if not names or not self.is_missing():
            return names
        if not self.shared.plan.config.resume:  # what an older run has left does not explain this one
            TABLE.path_of(self.shared.output.csv).unlink(missing_ok=True)
        self._show_verdict()
        rows: list[dict[str, Any]] = []
        for side_by_side in self.shared.sides(names):
            start = partial(self._start, len(side_by_side))
            with self.shared.groups(timed(1), self._leave_gap, start) as groups:
                rows += self._profile(side_by_side, groups)
        self.shared.write_beside(TABLE, rows)
        return names

    def _show_verdict(self) -> None:
        """Let the verdict be shown, if it is wanted now, and say how long profiling will take."""
        bar = self.shared.bar
        if self.shared.show_verdict is not None:
            with bar.hidden():
                self.shared.show_verdict()
            took = describe_duration(bar.seconds_of(self.expected()))
            bar.print_line(f"Why follows in {took}; Ctrl-C keeps everything above.")

    def _profile(self, names: Sequence[str], groups: RunningGroups) -> list[dict[str, Any]]:
        """The rows of backends that take turns."""
        with self.shared.bar.doing("profile start", f"{WHERE}: starting {', '.join(names)}"):
            groups.start(names)
        step_seconds = self._warm_up(groups)
        self._run_rounds(names, groups, step_seconds)
        rows: list[dict[str, Any]] = []
        for name in list(groups):
            with groups.closing_if_it_fails(name):
                answers = groups[name].request(FinishProfile())
                rounds = [answer.rounds for answer in answers]
                rows += rows_of_profile(rounds, described=self.shared.describe(name))
                groups[name].end()
                groups.pop(name).close()
        return rows

    def _start(self, side_by_side: int, name: str, launch: Launch) -> Group:
        """Start a group whose engine keeps a profile, too."""
        starter = self.shared.starter
        spec = dataclasses.replace(starter.spec(name, launch), profiled_groups=side_by_side)
        return starter.start_spec(spec, self.shared.output.folder / "profile" / name)

    def _warm_up(self, groups: RunningGroups) -> dict[str, float]:
        """Everything before the first round; how many seconds a step of each backend takes."""
        step_seconds: dict[str, float] = {}
        for name in list(groups):
            with (
                self.shared.bar.doing("profile set-up", f"{WHERE}: {name}, set-up"),
                groups.closing_if_it_fails(name),
            ):
                self.shared.timer.take_first_step(groups[name])
                answers = groups[name].request(TimeBlock(steps=WARMUP_STEPS))
                step_seconds[name] = max(answer.seconds for answer in answers) / WARMUP_STEPS
                self._settle(groups[name], step_seconds[name])
                groups[name].pause()
        return step_seconds

    def _settle(self, group: Group, step_seconds: float) -> None:
        """Profile uncounted steps until their profiles no longer take new memory."""
        settled = 0
        for _ in range(MOST_WARMUPS):
            request = ProfileSteps(steps=_steps_of_round(step_seconds), counted=False)
            profiled = group.request(request)
            settled = settled + 1 if all(answer.settled for answer in profiled) else 0
            if settled == SETTLED_WARMUPS:
                return

    def _run_rounds(
        self, names: Sequence[str], groups: RunningGroups, step_seconds: Mapping[str, float]
    ) -> None:
        """Let the backends take turns at profiled steps, in fewer rounds if steps are long."""
        rounds = self._rounds(max(step_seconds.values(), default=SECONDS))
        self.shared.bar.expect({"profile": rounds - MOST_ROUNDS})
        steps = {name: _steps_of_round(seconds) for name, seconds in step_seconds.items()}
        repeats = dict.fromkeys(names, 0)
        for number, order in enumerate(round_orders(names, launch=1, rounds=rounds), start=1):
            where = f"{WHERE}, round {number}/{rounds}"
            with self.shared.bar.doing("profile", f"{where}: {', '.join(order)}"):
                for name in [name for name in order if name in groups]:
                    with groups.closing_if_it_fails(name):
                        left = self.shared.plan.config.measure.repeats - repeats[name]
                        repeats[name] += self._profile_round(groups[name], name, steps[name], left)
                        groups[name].pause()
        if total := sum(repeats.values()):
            rounds_again = f"{total} round{'s' * (total != 1)} of a backend"
            self.shared.bar.print_line(f"{rounds_again} profiled again, since others had the cores")

    def _profile_round(self, group: Group, name: str, steps: int, left: int) -> int:
        """Profile a round; again while others have the cores, `left` times at most. How often again."""
        cores_per_rank, again = len(self.shared.plan.backends[name].spec.cores[0]), 0
        while True:
            answers = group.request(ProfileSteps(steps=steps, counted=True, replaces=again > 0))
            competition = find_competition(
                [answer.seconds for answer in answers],
                [answer.other_cpu_seconds for answer in answers],
                [answer.stolen_seconds for answer in answers],
                cores_per_rank,
            )
            if not competition or again >= left:
                return again
            again += 1

    def _rounds(self, step_seconds: float) -> int:
        """The number of rounds if the longest step takes this long."""
        return min(MOST_ROUNDS, max(FEWEST_ROUNDS, round(SECONDS / (step_seconds or 1.0))))

    def _leave_gap(self, name: str, _: Launch, failure: LaunchFailed, __: str) -> None:
        self.shared.bar.print_line(f"no breakdown of {name}: {failure.message}")


def _steps_of_round(step_seconds: float) -> int:
    """How many steps of `step_seconds` each are profiled in a round."""
    return min(MOST_STEPS, steps_per_block(step_seconds, SECONDS / MOST_ROUNDS))


STAGE = Profiles
