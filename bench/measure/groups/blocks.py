"""Sets up one group, warms it up and times its blocks; the devices are sampled meanwhile."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.launch.messages import A, BlockTimed, Build, Built, PhaseFigures, Request, TakeFirstStep, TimeBlock
from bench.machine.telemetry.gpu_sampler import GpuSampler
from bench.machine.telemetry.other_processes import Competitor, Scan
from bench.measure.groups.device_memory import DeviceMemory
from bench.measure.plan.plans import ComparisonPlan, Launch
from bench.measure.plan.schedule import steps_per_block
from bench.measure.record.ledger import Ledger
from bench.results import arithmetic, validity
from bench.results.prediction import predict
from bench.results.records import Block, Phase, WarmUp, Workload
from bench.study import block_steps

MOST_WARMUP_BLOCKS = 6  # of `measure.warmup_steps` each: then warm-up ends, settled or not

FEWEST_UNTIMED_STEPS = 2  # that a block begins with, where it begins with any

EQUAL_WARMUP_BLOCKS = 3
"""Where training is followed to a target: warm-up until it is settled would give some backends more steps."""

MEASURED_PER_RANK = tuple(name for name in PhaseFigures.__struct_fields__ if name != "absent")
"""The fields of `Phase` that every rank's `PhaseFigures` holds under the same names."""

SCAN_SECONDS = 0.3
"""How long a scan for the processes that spoiled a block takes: the kernel counts in ticks of 0.01 s."""


@dataclass
class BlockTimer:
    """Asks a group for its phases, one after the other, and puts their figures on record."""

    plan: ComparisonPlan
    sampler: GpuSampler  # of the devices
    memory: DeviceMemory  # of the devices
    ledger: Ledger  # that gets the figures
    scan: Scan  # at what other processes do on the cores, after a block that they spoiled

    def __post_init__(self) -> None:
        self._measure = self.plan.config.measure
        # of each launch; None: until memory and speed are settled
        self.warmup_blocks = EQUAL_WARMUP_BLOCKS if block_steps(self.plan.config) else None
        # the processes that used the cores just after blocks of this launch that others spoiled
        self.competitors: list[Competitor] = []
        # of this launch: every step's loss, by backend; and whether steps draw random numbers
        self.losses: dict[str, list[float]] = {}
        self.are_random = False

    def build(self, group: Group, name: str, launch: Launch) -> None:
        """Set up everything before the first step, and record it."""
        spec, built = self.plan.backends[name].spec, self._request(group, Build())
        self.ledger.update_workload(name, launch, **model_figures(built))
        self.ledger.update(
            name,
            launch,
            setup=Phase(**self._figures(built)),
            host_runtime_bytes=tuple(answer.host_runtime_bytes for answer in built),
            host_runtime_anonymous_bytes=tuple(answer.host_runtime_anonymous_bytes for answer in built),
            import_seconds=tuple(answer.import_seconds for answer in built),
            predicted=predict(
                parameters=built[0].parameters,
                trainable=built[0].trainable_parameters,
                optimizer=spec.optimizer,
                sharding=spec.sharding,
                world_size=len(built),
                device=spec.device,
            ),
        )

    def begin(self, group: Group, name: str, launch: Launch) -> None:
        """Take the first step, and the second one as a warm-up block by itself.

        The second step is much slower than later ones: a longer block that includes it could not be compared.
        """
        first = self._request(group, TakeFirstStep(), name)
        # A step that fp16 skips is taken again, and backends skip different steps.
        self.are_random |= any(answer.is_random or answer.loss_scale is not None for answer in first)
        check_batches(first, self.ledger.records[launch.number, name].workload, steps=1)
        self.ledger.update(
            name,
            launch,
            first_step=Phase(**self._figures(first)),
            proof=first[0].proof,
            absent=self._absent(first),
            weights_bytes=tuple(answer.weights_bytes for answer in first),
            optimizer_state_bytes=tuple(answer.optimizer_state_bytes for answer in first),
        )
        self._add_warm_up(group, name, launch, steps=1)

    def warm_up(self, group: Group, name: str, launch: Launch, *, in_turns: int = 1) -> bool:
        """One more block of the warm-up; returns whether it was the last, and the group has been preheated.

        Warm-up ends when it is settled or has reached its cap, or after the planned number of blocks. Groups
        that take turns preheat for an equal part each, since they use the same devices.
        """
        self._add_warm_up(group, name, launch, steps=self._measure.warmup_steps)
        blocks = self.ledger.records[launch.number, name].warm_up
        if not self._is_warm(blocks):
            return False
        self.ledger.update(name, launch, warm_up_settled=validity.has_settled(blocks))
        self._preheat(group, name, launch, self._measure.preheat_s / in_turns)
        return True

    def rehearse(self, group: Group, steps: int) -> None:
        """All that needs memory in a launch, without a record; `steps` single steps stand for its blocks.

        `oom`, too, if the group went on only by freeing cached memory in the middle of steps, which takes
        time.
        """
        self.take_first_step(group)
        blocks = [self._time_warm_up(group, steps=1)]
        while not self._is_warm(blocks):
            blocks.append(self._time_warm_up(group, self._measure.warmup_steps))
        for _ in range(steps):
            retries = sum(answer.allocator_retries or 0 for answer in group.request(TimeBlock(steps=1)))
            if retries:
                raise LaunchFailed(
                    "oom",
                    f"it fits only because torch's allocator freed what it kept, {retries} times in a step",
                )

    def take_first_step(self, group: Group) -> None:
        """Build and take the first step, without a record."""
        self._request(group, Build())
        self._request(group, TakeFirstStep())

    def steps_of_a_block(self, name: str, launch: Launch) -> int:
        """How many of this backend's steps fit into a timed block, by the end of its warm-up."""
        # The faster of two: one disturbance would shorten every block of the comparison.
        last = self.ledger.records[launch.number, name].warm_up[-2:]
        step = min(max(block.seconds) / block.steps for block in last)
        return steps_per_block(step, self._measure.block_seconds, least=self._measure.min_steps)

    def time_block(
        self, group: Group, name: str, launch: Launch, *, steps: int, round_number: int, position: int
    ) -> None:
        """Time one block; a contaminated one stays on record and is measured again, within the cap.

        LaunchFailed if a loss is not finite, or the group failed.
        """
        untimed = self._untimed_steps(self.ledger.records[launch.number, name].warm_up[-1])
        for attempt in itertools.count(1):
            answers = self._request(group, TimeBlock(steps=steps, untimed=untimed), name)
            check_batches(answers, self.ledger.records[launch.number, name].workload, steps=steps)
            losses = [answer.losses for answer in answers]
            if not all(math.isfinite(loss) for rank in losses for loss in rank):
                raise LaunchFailed("diverged", f"the loss is {losses[0][-1]} in round {round_number}")
            block = Block(
                round=round_number,
                position=position,
                attempt=attempt,
                steps=steps,
                last_loss=tuple(rank[-1] for rank in losses),
                loader_seconds=tuple(answer.loader_seconds for answer in answers),
                loss_scale=answers[0].loss_scale,
                skipped_steps=answers[0].skipped_steps,
                allocator_retries=tuple(answer.allocator_retries for answer in answers),
                **self._figures(answers),
            )
            repeats = self.ledger.add_block(name, launch, block, self._absent(answers))
            contamination = validity.find_contamination(block, len(self.plan.backends[name].spec.cores[0]))
            if not contamination:
                return
            if repeats >= self._measure.repeats:
                return
            if contamination.cause == validity.OTHER_PROCESSES:
                self.competitors += self.scan(SCAN_SECONDS).competitors

    def _untimed_steps(self, last: WarmUp) -> int:
        """Steps that bring back context, clocks and caches, by the pace of the last block of the warm-up."""
        seconds, per_step = self._measure.block_warmup_s, max(last.seconds) / last.steps
        return max(FEWEST_UNTIMED_STEPS, math.ceil(seconds / per_step)) if seconds else 0

    def _preheat(self, group: Group, name: str, launch: Launch, wanted: float) -> None:
        """Train for `wanted` seconds, the same for every backend: a GPU's clock falls as it gets warm."""
        last = self.ledger.records[launch.number, name].warm_up[-1]
        spent, per_step = 0.0, max(last.seconds) / last.steps
        while spent < wanted:
            seconds = min(self._measure.block_seconds, wanted - spent)
            spent += self._add_warm_up(group, name, launch, steps=steps_per_block(per_step, seconds))

    def _add_warm_up(self, group: Group, name: str, launch: Launch, *, steps: int) -> float:
        """Time a block of the warm-up; the seconds of its slowest rank."""
        block = self._time_warm_up(group, steps, name)
        earlier = self.ledger.records[launch.number, name].warm_up
        self.ledger.update(name, launch, warm_up=(*earlier, block))
        return max(block.seconds)

    def _time_warm_up(self, group: Group, steps: int, name: str = "") -> WarmUp:
        answers = self._request(group, TimeBlock(steps=steps), name)
        return WarmUp(steps=steps, **self._figures(answers))

    def _is_warm(self, warm_up: Sequence[WarmUp]) -> bool:
        """Whether warm-up is complete; its first block is the second step alone."""
        if len(warm_up) > (self.warmup_blocks or MOST_WARMUP_BLOCKS):
            return True
        return not self.warmup_blocks and validity.has_settled(warm_up)

    def _request(self, group: Group, request: Request[A], name: str = "") -> list[A]:
        """Ask for a phase, and sample the devices while it runs; a named backend's losses are kept."""
        self.sampler.start()
        answers = group.request(request, self.sampler)
        losses = [answer.losses for answer in answers if isinstance(answer, BlockTimed)]
        if name and losses:
            steps = zip(*losses, strict=True)
            self.losses.setdefault(name, []).extend(map(arithmetic.mean, steps))
        return answers

    def _figures(self, answers: Sequence[PhaseFigures]) -> dict[str, Any]:
        by_rank = {name: tuple(getattr(answer, name) for answer in answers) for name in MEASURED_PER_RANK}
        return by_rank | {"samples": self.sampler.take()} | self.memory.of_others

    def _absent(self, answers: Sequence[PhaseFigures]) -> dict[str, str]:
        absent = self.sampler.absent()
        for answer in answers:
            absent |= answer.absent
        return absent


def check_batches(answers: Sequence[PhaseFigures], workload: Workload, *, steps: int) -> None:
    """Raise `LaunchFailed`, status `invalid`, if a rank trained other batches than its row would say."""
    samples = steps * workload.grad_accum * workload.micro_batch
    wanted = {"micro_batches": steps * workload.grad_accum, "samples": samples}
    wanted |= {"tokens": samples * workload.seq_len} if workload.seq_len else {}
    for (rank, answer), (what, number) in itertools.product(enumerate(answers), wanted.items()):
        if (trained := getattr(answer, what)) not in (number, None):
            raise LaunchFailed(
                "invalid",
                f"rank {rank} trained {trained:,} {what.replace('_', '-')} in {steps} steps, and "
                f"micro_batch={workload.micro_batch} grad_accum={workload.grad_accum} "
                f"seq_len={workload.seq_len or 'null'} make {number:,}; see what makes its batches",
            )


def model_figures(built: Sequence[Built]) -> dict[str, Any]:
    """What a workload holds once there is a model, from the answers to `build`."""
    return {
        "attention": built[0].attention,
        "parameters": built[0].parameters,
        "trainable_parameters": built[0].trainable_parameters,
        "weights": built[0].weights,
        "padding_share": arithmetic.mean_of_known(answer.padding_share for answer in built),
    }
