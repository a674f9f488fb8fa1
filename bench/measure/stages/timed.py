"""A timed launch: its groups are started, set up, and timed block by block, round by round."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.machine.telemetry.gpu_sampler import GpuSampler
from bench.machine.telemetry.other_processes import describe_takers
from bench.measure.groups.blocks import BlockTimer
from bench.measure.groups.quiet import QuietCores
from bench.measure.groups.running import Recovery, RunningGroups
from bench.measure.groups.starting import GroupStarter
from bench.measure.plan.launches import Launch
from bench.measure.plan.plans import Schedule
from bench.measure.plan.schedule import Order, group_order, round_orders
from bench.measure.record.failures import Failures
from bench.measure.record.ledger import Ledger
from bench.measure.record.progress import ProgressBar
from bench.measure.stages.evaluations import Evaluations


@dataclass
class TimedLaunch:
    """Runs the timed launches of a comparison."""

    schedule: Schedule  # how many rounds, and whether the groups live side by side
    steps: int  # of every timed block, if they are given or an earlier run has found them; else 0
    starter: GroupStarter
    timer: BlockTimer
    evaluations: Evaluations  # between the blocks, if they are wanted
    sampler: GpuSampler
    ledger: Ledger
    failures: Failures
    recover: Recovery  # what may be done about a failure instead of a row
    quiet: QuietCores  # waits until other processes leave the cores alone
    bar: ProgressBar

    def planned(self, backends: int) -> dict[str, int]:
        """How many things of each kind a launch of so many backends has, for the progress bar."""
        all_resident = self.schedule.all_resident
        return {
            "start": 1 if all_resident else backends,
            "set-up": backends,
            "wake": backends if all_resident and backends > 1 else 0,
            "block": self.schedule.rounds * backends,
        }

    def run(self, names: Sequence[str], launch: Launch) -> None:
        """Time these backends: side by side, or one after the other."""
        rounds, where = self.schedule.rounds, launch.label(self.schedule.launches)
        self.quiet.wait(where)
        if self.schedule.all_resident:
            self._run(names, launch, round_orders(names, launch=launch.number, rounds=rounds))
        else:
            order = group_order(names, launch=launch.number)
            for name in order:
                self._run([name], launch, [order] * rounds)
        for line in self.timer.repeats.lines(launch.number):
            self.bar.print_line(f"{where}: {line}")

    def describe_spoiling(self, launch: Launch) -> str:
        """Who spoiled this launch for every backend that was timed in it; empty if some of them count."""
        timed = [
            name
            for (number, name), record in self.ledger.records.items()
            if number == launch.number and record.status == "ok"
        ]
        repeats = self.timer.repeats
        if not repeats.is_spoiled(launch.number, timed, self.schedule.rounds):
            return ""
        where, takers = launch.label(self.schedule.launches), repeats.takers(launch.number)
        return (
            f"{where}: other processes had the cores in the blocks of every backend, however often these "
            f"were measured again ({describe_takers(takers)})"
        )

    def _run(self, names: Sequence[str], launch: Launch, rounds: Sequence[Order]) -> None:
        where = launch.label(self.schedule.launches)
        with RunningGroups(
            launch,
            self.starter,
            self.failures,
            all_resident=self.schedule.all_resident,
            recover=self.recover,
        ) as groups:
            before = self.sampler.look_before_a_group()
            with self.bar.doing("start", f"{where}: starting {', '.join(names)}"):
                groups.start(names)
            for name in [name for name in rounds[0] if name in groups]:
                with (
                    self.bar.doing("set-up", f"{where}: {name}, set-up and warm-up"),
                    groups.recording_failure(name),
                ):
                    self.ledger.update(name, launch, device_before=before)
                    self.timer.build(groups[name], name, launch)
                    self.evaluations.evaluate(groups[name], name, launch)
                    self.timer.begin(groups[name], name, launch)
                    groups.pause_unless_alone(name)
            self._wake(where, rounds[0], groups)
            self._find_steps(groups)
            for number, order in enumerate(rounds, start=1):
                self._run_round(f"{where}, round {number}/{len(rounds)}", number, order, groups)
            groups.end()

    def _run_round(self, where: str, number: int, order: Order, groups: RunningGroups) -> None:
        """One block of every group; the results file is written at the end."""
        for position, name in enumerate(order, start=1):
            if name not in groups:
                continue
            with self.bar.doing("block", f"{where}: {name}"), groups.recording_failure(name):
                self.timer.time_block(
                    groups[name],
                    name,
                    groups.launch,
                    steps=self.steps,
                    round_number=number,
                    position=position,
                )
                self.evaluations.evaluate(groups[name], name, groups.launch)
                groups.pause_unless_alone(name)
        self.ledger.write()
        self.evaluations.write()

    def _wake(self, where: str, order: Order, groups: RunningGroups) -> None:
        if len(groups) < 2:
            return
        for name in [name for name in order if name in groups]:
            with (
                self.bar.doing("wake", f"{where}: {name}, last warm-up"),
                groups.recording_failure(name),
            ):
                seconds = self.timer.wake(groups[name])
                self.evaluations.note_wake(name, groups.launch, seconds)
                groups.pause_unless_alone(name)

    def _find_steps(self, groups: RunningGroups) -> None:
        """The number of steps of every timed block, once, from the reference backend where it runs."""
        while not self.steps and groups:
            reference = self.schedule.reference
            name = reference if reference in groups else next(iter(groups))
            with groups.recording_failure(name):
                self.steps = self.timer.steps_of_a_block(groups[name])
                groups.pause_unless_alone(name)
