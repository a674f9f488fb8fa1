"""The timed launches: groups are started, set up, and timed block by block, round by round."""

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.errors import LaunchFailed
from bench.launch.agents import keep_parents
from bench.launch.group import Group
from bench.measure.groups.busy_cores import describe_repeats
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.plans import Launch, timed
from bench.measure.plan.schedule import Order, group_order, missing_launches, round_orders, steps_per_block
from bench.measure.record.progress import describe_duration
from bench.measure.stages.later import LaterLosses
from bench.measure.stages.stage import Run, Stage
from bench.statistics.summary import BackendSummary, summarise, widest_half_width
from bench.study import block_steps, load_wanted

TYPICAL_WARMUP_BLOCKS, BLOCK_SECONDS = 2.3, 0.15
"""Typical number of a backend's warm-up blocks, and a block's seconds besides its steps: for estimates."""


class TimedLaunches(Stage):
    """Makes the launches that are missing, and more until `measure.target_half_width` is reached."""

    def __init__(self, shared: Run) -> None:
        super().__init__(shared)
        # of every timed block, if they are given or an earlier run has found them; else 0
        self._steps = block_steps(shared.plan.config) or shared.earlier.steps
        self._watches = [part.WATCH(shared) for part in load_wanted("watch", shared.plan.config)]
        self._begun_anew = 0  # how often a backend lost its rounds
        self._crowded_out: list[str] = []  # who ran out of memory beside others
        self._later = LaterLosses(shared)
        self._might_be_busy = True  # the cores: not known yet, or others disturbed the last launch

    def is_missing(self) -> bool:
        """Whether launches are missing, or the widest interval is still wider than was asked for."""
        return bool(self._missing(self.shared.names)) or self._wants_another(0)

    def expected(self) -> dict[str, int]:
        """Everything in the launches that are missing."""
        return self._in_launches(self._missing(self.shared.names))

    def guess(self) -> dict[str, float]:
        """How long each part of a launch takes, by the pace, with the typical number of warm-up blocks."""
        pace, measure, names = self.shared.pace, self.shared.measure, self.shared.names
        together = len(names) if self.shared.memory.in_turns else 1
        warm_ups = self.shared.timer.warmup_blocks or TYPICAL_WARMUP_BLOCKS
        step = pace.step or 1.0
        steps = self._steps or steps_per_block(step, measure.block_seconds, least=measure.min_steps)
        return {
            "start": pace.start / len(self.shared.sides(names)),
            "set-up": pace.warm_up(1) + BLOCK_SECONDS,
            "warm-up": warm_ups * (measure.warmup_steps * pace.step + BLOCK_SECONDS) * together
            + measure.preheat_s,
            "block": steps * pace.step + BLOCK_SECONDS + measure.block_warmup_s,
        }

    def run(self, names: Sequence[str]) -> list[str]:
        """Time these backends; the names of those with timed blocks that ended well."""
        if not names:
            return []
        self._run_launches(names)
        return self.shared.timed_names()

    def _run_launches(self, names: Sequence[str]) -> None:
        missing = self._missing(names)
        for launches in itertools.count():  # the number made so far
            if launches >= missing:
                if not self._wants_another(launches):
                    return
                self.shared.bar.expect(self._in_launches(1))
            before = self._begun_anew
            launch = timed(self.shared.earlier.last_launch + launches + 1)
            is_last = launches + 1 >= missing and not self.shared.starts_after_timing
            with keep_parents(is_last=is_last):
                self._run_launch(names, launch)
            self._show_so_far(launch)
            if self._begun_anew > before:  # with the next launch
                needed = launches + 1 + self.shared.measure.launches
                self.shared.bar.expect(self._in_launches(max(0, needed - missing)))
                missing = max(missing, needed)

    def _show_so_far(self, launch: Launch) -> None:
        left = describe_duration(self.shared.bar.seconds_left())
        title = f"after {self.shared.label(launch)}, over {self.shared.plan.reference} ({left} to come)"
        summaries = summarise(self.shared.ledger.rows())
        others = {each.backend: _speedup_so_far(each) for each in summaries if not each.is_reference}
        if others:
            self.shared.bar.show(title, others)

    def _missing(self, names: Sequence[str]) -> int:
        measure, earlier = self.shared.measure, self.shared.earlier
        if self.shared.plan.reference not in names:
            return 0
        missing = missing_launches(
            launches=measure.launches, rounds=measure.rounds, measured=earlier.fewest_rounds(names)
        )
        return max(missing, int(any(row["backend"] in names for row in earlier.retried)))

    def _wants_another(self, launches: int) -> bool:
        another, reason = self._decide_on_another(launches)
        if reason:
            self.shared.bar.print_line(reason)
        return another

    def _decide_on_another(self, launches: int) -> tuple[bool, str]:
        """Whether an interval is too wide and the cap allows one more launch; and why, in a sentence."""
        measure, target = self.shared.measure, self.shared.measure.target_half_width
        if target is None or len(self.shared.names) < 2:
            return False, ""
        widest = widest_half_width(self.shared.ledger.rows())
        if widest is None:
            return False, "no backend has a speed-up, so measure.target_half_width cannot be reached"
        total = self.shared.earlier.launches + launches
        if widest <= target:
            return False, f"every interval is within ± {target:.1%} after {total} launches"
        known = math.isfinite(widest)
        reached = f"the widest interval is ± {widest:.1%}" if known else "no interval is known"
        if total >= max(measure.launches, measure.max_launches):
            cap = f"measure.max_launches={measure.max_launches}"
            return False, f"{reached}, not ± {target:.1%}: another launch would pass {cap}"
        return True, f"{reached}, not yet ± {target:.1%}: launch {total + 1} follows"

    def _in_launches(self, launches: int) -> dict[str, int]:
        backends = len(self.shared.names)
        sides = 1 if self.shared.memory.in_turns else backends
        return {
            "start": launches * sides,
            "set-up": launches * backends,
            "warm-up": launches * sides,
            "block": launches * self.shared.measure.rounds * backends,
        }

    def _run_launch(self, names: Sequence[str], launch: Launch) -> None:
        rounds, where = self.shared.measure.rounds, self.shared.label(launch)
        self.shared.timer.competitors.clear()
        self.shared.timer.losses.clear()
        if self._might_be_busy:
            self.shared.quiet.wait(where)
        order = alone = group_order(names, launch=launch.number)
        if self.shared.memory.in_turns:
            self._run_groups(names, launch, round_orders(names, launch=launch.number, rounds=rounds))
            alone = tuple(self._crowded_out)
            self.shared.memory.in_turns = not alone
        for name in alone:
            self._run_groups([name], launch, [order] * rounds)
        made = self.shared.ledger.records.items()
        records = {name: record for (number, name), record in made if number == launch.number}
        repeats = describe_repeats(records, self.shared.timer.competitors)
        self._might_be_busy = bool(repeats)
        for line in repeats:
            self.shared.bar.print_line(f"{where}: {line}")
        self._later.compare(launch)

    def _run_groups(self, names: Sequence[str], launch: Launch, rounds: Sequence[Order]) -> None:
        where, bar, timer = self.shared.label(launch), self.shared.bar, self.shared.timer
        with self.shared.groups(launch, self._fail) as groups:
            before = timer.sampler.look_before_a_group()
            with bar.doing("start", f"{where}: starting {', '.join(names)}"):
                groups.start(names)
            for name in [name for name in rounds[0] if name in groups]:
                with (
                    bar.doing("set-up", f"{where}: {name}, set-up and first steps"),
                    self._turn_of(name, groups),
                ):
                    self.shared.ledger.update(name, launch, device_before=before)
                    timer.build(groups[name], name, launch)
                    self._let_studies_look(groups[name], name, launch)
                    timer.begin(groups[name], name, launch)
            self._warm_up(where, rounds[0], groups)
            if groups and not self._steps:  # of every timed block, from the reference where it runs
                reference = self.shared.plan.reference
                name = reference if reference in groups else next(iter(groups))
                self._steps = timer.steps_of_a_block(name, launch)
            for number, order in enumerate(rounds, start=1):
                self._run_round(f"{where}, round {number}/{len(rounds)}", number, order, groups)
            self._later.look(groups)
            groups.end()

    @contextmanager
    def _turn_of(self, name: str, groups: RunningGroups) -> Iterator[None]:
        """A group works meanwhile, and then sleeps; it is closed if it fails.

        On a CPU the group is stopped, so that it takes no core time. On GPUs NCCL, whose threads wake ten
        times a second, would take a long stop for a hang.
        """
        with groups.closing_if_it_fails(name), self.shared.memory.turn_of(groups[name], groups.values()):
            yield
            if self.shared.plan.interleaved and not self.shared.plan.on_gpus:
                groups[name].pause()

    def _fail(self, name: str, launch: Launch, failure: LaunchFailed, log_tail: str) -> None:
        """Put a failure on record, unless the backend is measured again in another way."""
        shared = self.shared
        if failure.status == "oom" and shared.plan.on_gpus and shared.memory.in_turns:
            shared.bar.print_line(
                f"{name}, {shared.label(launch)}: {failure.message}: it is measured alone, and from the next "
                "launch on backends run one after the other"
            )
            shared.ledger.forget(name, launch)
            self._crowded_out.append(name)
            return
        if any(begins_anew(name, launch, failure) for begins_anew in shared.when_failed):
            self._begun_anew += 1
        else:
            shared.failures.record(name, launch, failure, log_tail)

    def _run_round(self, where: str, number: int, order: Order, groups: RunningGroups) -> None:
        for position, name in enumerate(order, start=1):
            if name not in groups:
                continue
            with self.shared.bar.doing("block", f"{where}: {name}"), self._turn_of(name, groups):
                self.shared.timer.time_block(
                    groups[name],
                    name,
                    groups.launch,
                    steps=self._steps,
                    round_number=number,
                    position=position,
                )
                self._let_studies_look(groups[name], name, groups.launch)
        self.shared.ledger.write()
        for watch in self._watches:
            watch.write()

    def _let_studies_look(self, group: Group, name: str, launch: Launch) -> None:
        """At a group that has just been built, or timed in a block."""
        for watch in self._watches:
            watch.look(group, name, launch)

    def _warm_up(self, where: str, order: Order, groups: RunningGroups) -> None:
        """Time blocks in turn, as the timed ones will be, until every group is warm."""
        # Warm groups may wait: after 15 s a first step took 0.99 to 1.06 times its fourth (AMD EPYC 25/17).
        if not groups:
            return
        with self.shared.bar.doing("warm-up", f"{where}: {', '.join(groups)}, warm-up"):
            cold, in_turns = list(order), len(groups)
            while cold := [name for name in cold if name in groups]:
                for name in list(cold):
                    with self._turn_of(name, groups):
                        group = groups[name]
                        if self.shared.timer.warm_up(group, name, groups.launch, in_turns=in_turns):
                            cold.remove(name)


def _speedup_so_far(summary: BackendSummary) -> str:
    speedup = summary.speedup
    if speedup is None:
        return summary.no_speedup or summary.status
    if speedup.launches < 2:
        return f"{speedup.ratio:.3f}\N{MULTIPLICATION SIGN} (one launch: no interval yet)"
    return str(speedup)
