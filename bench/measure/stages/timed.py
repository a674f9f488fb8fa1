"""The timed launches: groups are started, set up, and timed block by block, round by round."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from bench.errors import LaunchFailed, UserError
from bench.machine.telemetry.other_processes import describe_takers
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.launches import Launch, timed
from bench.measure.plan.plans import TimedPlan
from bench.measure.plan.schedule import Order, group_order, round_orders, steps_per_block
from bench.measure.record.progress import describe_duration
from bench.measure.stages.evaluations import Evaluations
from bench.measure.stages.stage import Run, Stage
from bench.measure.stages.stopping import Stopping
from bench.statistics.summary import BackendSummary, summarise

USUAL_WARMUP_BLOCKS, BLOCK_SECONDS = 2.3, 0.15
"""How many a backend takes, and the seconds of each beside its steps: to estimate the time that is left."""


@dataclass
class TimedLaunches(Stage):
    """Makes the launches that are missing, and with `measure.until` more until that is reached."""

    shared: Run
    plan: TimedPlan

    def __post_init__(self) -> None:
        shared, converge = self.shared, self.plan.converge
        # of every timed block, if they are given or an earlier run has found them; else 0
        self._steps = shared.earlier.steps if converge is None else converge.steps
        self._evaluations = Evaluations(shared, self.plan)
        self._stopping = Stopping(shared, self.plan)

    def is_missing(self) -> bool:
        """Whether launches are missing, or the widest interval is still wider than was asked for."""
        return bool(self._stopping.missing(self.shared.names)) or self._wants_another(0)

    def expected(self) -> dict[str, int]:
        """Everything in the launches that are missing."""
        return self._in_launches(self._stopping.missing(self.shared.names))

    def guess(self) -> dict[str, float]:
        """From the pace; a warm-up takes as many blocks as usual."""
        pace, blocks, backends = self.shared.pace, self.shared.plan.blocks, len(self.shared.names)
        warm_ups = blocks.warmup_blocks or USUAL_WARMUP_BLOCKS
        step = sum(pace.steps.values()) / backends
        steps = self._steps or steps_per_block(step or 1.0, blocks.block_seconds)
        return {
            "start": pace.start / len(self.shared.sides(self.shared.names)),
            "set-up": (
                pace.warm_up(warm_ups * blocks.warmup_steps) / backends
                + warm_ups * BLOCK_SECONDS
                + blocks.preheat_s
            ),
            "wake": blocks.warmup_steps * step + BLOCK_SECONDS,
            "block": steps * step + BLOCK_SECONDS,
        }

    def run(self, names: Sequence[str]) -> list[str]:
        """Time these backends; the names of those with timed blocks that ended well."""
        if not names:
            return []
        self._run_launches(names)
        return self.shared.timed_names()

    def _run_launches(self, names: Sequence[str]) -> None:
        self._stopping.start_clock()
        steps_down, missing = self.shared.micro_batches.steps_down, self._stopping.missing(names)
        for launches in itertools.count():  # so many have been made
            if launches >= missing:
                if not self._wants_another(launches):
                    return
                self.shared.bar.expect(self._in_launches(1))
            stepped_down = steps_down.total()
            launch = timed(self.shared.earlier.last_launch + launches + 1)
            self._run_launch(names, launch)
            self._show_so_far(launch)
            if self._ends_on_busy_cores(launch, made=launches + 1, missing=missing):
                return
            if steps_down.total() > stepped_down:
                # That backend has lost its rounds and starts over with the next launch.
                needed = launches + 1 + self.shared.plan.launches
                self.shared.bar.expect(self._in_launches(max(0, needed - missing)))
                missing = max(missing, needed)

    def _show_so_far(self, launch: Launch) -> None:
        """Show each backend's speed-up over the launches so far, and how long the rest will take."""
        left = describe_duration(self.shared.bar.seconds_left())
        title = f"after {self.shared.label(launch)}, over {self.shared.plan.reference} ({left} to come)"
        summaries = summarise(self.shared.ledger.rows())
        others = {each.backend: _speedup_so_far(each) for each in summaries if not each.is_reference}
        if others:
            self.shared.bar.show(title, others)

    def _wants_another(self, launches: int) -> bool:
        decision = self._stopping.decide_on_another_launch(launches)
        if decision.reason:
            self.shared.bar.print_line(decision.reason)
        return decision.another

    def _ends_on_busy_cores(self, launch: Launch, *, made: int, missing: int) -> bool:
        """Whether other processes spoiled this launch for all backends, and launches would still follow."""
        spoiling = self._describe_spoiling(launch)
        if not spoiling:
            return False
        if made >= missing and not self._stopping.decide_on_another_launch(made).another:
            return False
        remedy = "end them, and go on with resume=true, which keeps what is measured"
        self.shared.failures.note_incomplete(UserError(f"{spoiling}, so that no more were made", remedy))
        return True

    def _describe_spoiling(self, launch: Launch) -> str:
        """Who spoiled this launch for every backend that was timed in it; empty if some of them count."""
        ended_well = [
            name
            for (number, name), record in self.shared.ledger.records.items()
            if number == launch.number and record.status == "ok"
        ]
        repeats = self.shared.timer.repeats
        if not repeats.is_spoiled(launch.number, ended_well, self.plan.rounds):
            return ""
        return (
            f"{self.shared.label(launch)}: other processes had the cores in the blocks of every backend, "
            f"however often these were measured again ({describe_takers(repeats.takers(launch.number))})"
        )

    def _in_launches(self, launches: int) -> dict[str, int]:
        """How many things of each kind so many launches have, for the progress bar."""
        all_resident, backends = self.shared.plan.all_resident, len(self.shared.names)
        return {
            "start": launches * (1 if all_resident else backends),
            "set-up": launches * backends,
            "wake": launches * (backends if all_resident and backends > 1 else 0),
            "block": launches * self.plan.rounds * backends,
        }

    def _run_launch(self, names: Sequence[str], launch: Launch) -> None:
        """Time these backends: side by side, or one after the other."""
        rounds, where = self.plan.rounds, self.shared.label(launch)
        self.shared.quiet.wait(where)
        if self.shared.plan.all_resident:
            self._run_groups(names, launch, round_orders(names, launch=launch.number, rounds=rounds))
        else:
            order = group_order(names, launch=launch.number)
            for name in order:
                self._run_groups([name], launch, [order] * rounds)
        for line in self.shared.timer.repeats.lines(launch.number):
            self.shared.bar.print_line(f"{where}: {line}")

    def _run_groups(self, names: Sequence[str], launch: Launch, rounds: Sequence[Order]) -> None:
        where, bar, timer = self.shared.label(launch), self.shared.bar, self.shared.timer
        all_resident = self.shared.plan.all_resident
        with self.shared.groups(launch, self._step_down_or_fail, all_resident=all_resident) as groups:
            before = timer.sampler.look_before_a_group()
            with bar.doing("start", f"{where}: starting {', '.join(names)}"):
                groups.start(names)
            for name in [name for name in rounds[0] if name in groups]:
                with (
                    bar.doing("set-up", f"{where}: {name}, set-up and warm-up"),
                    groups.closing_if_it_fails(name),
                ):
                    self.shared.ledger.update(name, launch, device_before=before)
                    timer.build(groups[name], name, launch)
                    self._evaluations.evaluate(groups[name], name, launch)
                    timer.begin(groups[name], name, launch)
                    groups.pause_unless_alone(name)
            self._wake(where, rounds[0], groups)
            self._find_steps(groups)
            for number, order in enumerate(rounds, start=1):
                self._run_round(f"{where}, round {number}/{len(rounds)}", number, order, groups)
            groups.end()

    def _step_down_or_fail(self, name: str, launch: Launch, failure: LaunchFailed, log_tail: str) -> None:
        """Go on with a smaller micro-batch after a lack of memory, or put the failure on record."""
        done = self.shared.micro_batches.step_down(name, launch, failure)
        if not done:
            self.shared.failures.record(name, launch, failure, log_tail)
            return
        self.shared.bar.print_line(f"{name}, {self.shared.label(launch)}: {done}")
        self.shared.ledger.write()

    def _run_round(self, where: str, number: int, order: Order, groups: RunningGroups) -> None:
        """One block of every group; the results file is written at the end."""
        for position, name in enumerate(order, start=1):
            if name not in groups:
                continue
            with self.shared.bar.doing("block", f"{where}: {name}"), groups.closing_if_it_fails(name):
                self.shared.timer.time_block(
                    groups[name],
                    name,
                    groups.launch,
                    steps=self._steps,
                    round_number=number,
                    position=position,
                )
                self._evaluations.evaluate(groups[name], name, groups.launch)
                groups.pause_unless_alone(name)
        self.shared.ledger.write()
        self._evaluations.write()

    def _wake(self, where: str, order: Order, groups: RunningGroups) -> None:
        if len(groups) < 2:
            return
        for name in [name for name in order if name in groups]:
            with (
                self.shared.bar.doing("wake", f"{where}: {name}, last warm-up"),
                groups.closing_if_it_fails(name),
            ):
                seconds = self.shared.timer.wake(groups[name])
                self._evaluations.note_wake(name, groups.launch, seconds)
                groups.pause_unless_alone(name)

    def _find_steps(self, groups: RunningGroups) -> None:
        """The number of steps of every timed block, once, from the reference backend where it runs."""
        reference = self.shared.plan.reference
        while not self._steps and groups:
            name = reference if reference in groups else next(iter(groups))
            with groups.closing_if_it_fails(name):
                self._steps = self.shared.timer.steps_of_a_block(groups[name])
                groups.pause_unless_alone(name)


def _speedup_so_far(summary: BackendSummary) -> str:
    speedup = summary.speedup
    if speedup is None:
        return summary.no_speedup or summary.status
    if speedup.launches < 2:
        return f"{speedup.ratio:.3f}\N{MULTIPLICATION SIGN} (one launch: no interval yet)"
    return str(speedup)
