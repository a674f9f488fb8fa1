"""What fits a GPU, seen at the end of the parity launch: which micro-batch fills it; all groups at once?"""

from collections.abc import Sequence
from itertools import count, pairwise
from typing import NamedTuple

from bench.config.measure import SATURATING
from bench.config.schema import global_batch
from bench.launch.group import Group
from bench.launch.messages import TimeBlock
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.schedule import steps_per_block
from bench.measure.stages.stage import Run, Stage
from bench.results import arithmetic
from bench.results.validity import WAITING_GPU_PERCENT

LEAST_GAIN = 1.05  # in samples/s, for which a micro-batch is doubled once more
SECONDS, FEWEST_STEPS = 1.0, 3  # of a trial: NVML's utilisation covers up to the last second


class Trial(NamedTuple):
    """How fast a backend is with a micro-batch, and how busy NVML calls the GPU, in percent."""

    micro_batch: int
    samples_per_s: float
    utilisation: float | None


class DeviceFit(Stage):
    """Doubles the micro-batch where the GPU waits, and decides whether backends take turns in timed launches.

    Eager backends alone try larger ones: a graph that is compiled for one shape would be compiled anew.
    """

    def __init__(self, shared: Run) -> None:
        super().__init__(shared)
        self._trials: dict[str, list[Trial]] = {}  # of each backend, the smallest first
        if shared.plan.on_gpus and shared.measure.launches:
            shared.when_trained.insert(0, self._note)
            if shared.measure.batch != "max":
                shared.when_trained.append(self._fill)  # last: a group that runs out of memory ends

    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Choose the micro-batch if it is to be chosen, and whether these backends take turns."""
        shared, memory = self.shared, self.shared.memory
        if not shared.plan.on_gpus or not shared.measure.launches or not names:
            return names
        configured = shared.plan.config.micro_batch
        known = shared.starter.micro_batches.values()  # that an earlier run has found
        searched = {name: trials for name, trials in self._trials.items() if len(trials) > 1}
        size = max([*known] or map(_filling, searched.values()), default=configured)
        while size > configured and any(memory.find_shortage([name], size / configured) for name in names):
            size //= 2
        for name, trials in searched.items():
            rates = ", ".join(f"{each.samples_per_s:.4g} at {each.micro_batch}" for each in trials)
            shared.bar.print_line(f"{name}: samples/s by micro-batch, to fill the GPU: {rates}")
        for name in names:
            shared.ledger.set_for_later_records(name, saturating_micro_batch=size if searched else None)
            if shared.measure.batch == SATURATING:
                shared.use_micro_batch(name, size)
        times = size / configured if shared.measure.batch == SATURATING else 1
        if memory.in_turns and len(names) > 1 and (why := memory.find_shortage(names, times)):
            memory.in_turns = False
            shared.bar.print_line(
                f"backends run one after the other, since together {why}; launches differ more then: "
                f"measure.launches={2 * shared.measure.launches} makes up for it"
            )
        return names

    def _note(self, groups: RunningGroups, _: object) -> None:
        for name in groups:  # a single one, alone on the devices
            self.shared.memory.note_parity(name)

    def _fill(self, groups: RunningGroups, _: object) -> None:
        for name in [name for name in groups if self.shared.plan.backends[name].spec.engine == "eager"]:
            with groups.closing_if_it_fails(name, lambda *_: None):  # mostly for want of memory
                self._double(name, groups[name])

    def _double(self, name: str, group: Group) -> None:
        """Try larger micro-batches as long as they pay, if the GPU waits with the configured one."""
        trials = self._trials[name] = [self._try(group, 1)]
        busy = trials[0].utilisation
        if (busy is None or busy >= WAITING_GPU_PERCENT) and self.shared.measure.batch != SATURATING:
            return
        for times in (2**power for power in count(1)):
            pays = _filling(trials) == trials[-1].micro_batch
            if not pays or self.shared.memory.find_shortage([name], times):
                return
            trials.append(self._try(group, times))

    def _try(self, group: Group, times: int) -> Trial:
        config = self.shared.plan.config
        first = group.request(TimeBlock(steps=1, untimed=1, times=times))
        steps = steps_per_block(max(answer.seconds for answer in first), SECONDS, least=FEWEST_STEPS)
        answers = group.request(TimeBlock(steps=steps, times=times))
        batch = global_batch(times * config.micro_batch, config.grad_accum, len(answers))
        seconds = max(answer.seconds for answer in answers)
        ends = [answer.device_ends[-1].utilisation_percent for answer in answers if answer.device_ends]
        rate = arithmetic.samples_per_s(steps, batch, seconds)
        return Trial(times * config.micro_batch, rate, arithmetic.mean_of_known(ends))


def _filling(trials: Sequence[Trial]) -> int:
    """The micro-batch beyond which the next gains too little; the largest where memory ended the trials."""
    for one, larger in pairwise(trials):
        if larger.samples_per_s < LEAST_GAIN * one.samples_per_s:
            return one.micro_batch
    return trials[-1].micro_batch
