"""One comparison from its configuration to its results file: parity, the search if wanted, timed launches.

Imports no torch; the worker groups do the work, one block at a time.
"""

import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.cluster.node_pool import NodePool, RemoteDevice, connected_nodes
from bench.config.reference import describe_reference
from bench.config.schema import Config
from bench.errors import UserError
from bench.launch.group import Group
from bench.machine.gpus import Gpu, describe_first_use, visible_gpus
from bench.machine.telemetry.gpu_meter import GpuMeter
from bench.machine.telemetry.gpu_sampler import GpuSampler, SampledDevice
from bench.machine.telemetry.other_processes import Look, look_at_others
from bench.machine.variables import cuda_cache
from bench.measure.after_checkpoint import AfterCheckpoint
from bench.measure.after_export import AfterExport
from bench.measure.after_training import AfterTraining, NothingAfterTraining
from bench.measure.blocks import BlockTimer
from bench.measure.cores import core_shares, leaving_the_ranks_cores
from bench.measure.evaluations import Evaluations
from bench.measure.explain import Explanation
from bench.measure.failures import Failures
from bench.measure.groups import GroupStarter
from bench.measure.launches import Launch, timed
from bench.measure.ledger import Ledger
from bench.measure.lock import locked
from bench.measure.parity_launch import ParityLaunch
from bench.measure.plans import CheckpointPlan, ExportPlan
from bench.measure.progress import ProgressBar
from bench.measure.quiet import QuietCores
from bench.measure.resolve import resolve
from bench.measure.resume import take_over_earlier_run
from bench.measure.search import USUAL_TRIALS, Search
from bench.measure.step_parts import StepParts
from bench.measure.stopping import Stopping
from bench.measure.timed_launch import TimedLaunch
from bench.results.atomic import reporting_write_errors
from bench.results.machines import keep_identity


@dataclass(frozen=True, kw_only=True)
class ComparisonOutcome:
    """What a comparison leaves: its results file, and a line for each launch that was not ok."""

    csv: Path
    failures: list[str]


def measure_comparison(config: Config, stem: str, overrides: Sequence[str]) -> ComparisonOutcome:
    """Measure one comparison and write its results file.

    Args:
        config: checked against this machine.
        stem: the results file's name without its ending.
        overrides: of Hydra, that make this comparison again, for the record.

    Raises:
        UserError: another process measures the same comparison, other nodes are missing, or the disk is full.
    """
    bar = ProgressBar(Console(stderr=True))
    folder = Path(config.results_dir)
    if folder.parts[-2:] == (config.machine, config.study):
        with reporting_write_errors(folder):
            keep_identity(folder.parent)
    with (
        locked(folder / "runs" / stem, stem),
        connected_nodes(config, bar.print_line) as nodes,
    ):
        comparison = Comparison(config, stem, overrides=overrides, bar=bar, nodes=nodes)
        with leaving_the_ranks_cores(comparison.cores), bar:
            comparison.measure()
    return ComparisonOutcome(csv=comparison.output.csv, failures=comparison.failures.failure_lines())


class Comparison:
    """Builds the parts of a comparison, hands each its part of the plan, and runs one after the other.

    Args:
        config: checked against this machine.
        stem: the results file's name without its ending.
        overrides: of Hydra, that make this comparison again, for the record.
        start_group: starts a worker group; tests give their own.
        look: at what other processes do on the ranks' cores; tests give their own.
        clock: seconds, for the cap of `measure.until`.
        bar: shows what runs.
        nodes: the others, if there are to be several.

    Raises:
        UserError: the configuration asks for several nodes, and whoever called has none; or an earlier run
            cannot be resumed.
    """

    def __init__(
        self,
        config: Config,
        stem: str,
        *,
        overrides: Sequence[str] = (),
        start_group: Callable[..., Group] = Group,
        look: Look | None = None,
        clock: Callable[[], float] = time.monotonic,
        bar: ProgressBar | None = None,
        nodes: NodePool | None = None,
    ) -> None:
        device = config.device
        if nodes is None and device.nnodes > 1:
            raise UserError("This runs on one node only; leave device.nnodes and device.rdzv_endpoint out.")
        gpus = visible_gpus() if device.type == "cuda" else []
        self.cores = core_shares(
            sorted(os.sched_getaffinity(0)),
            world_size=device.ranks_per_node,
            threads=device.threads,
            held=device.hold_threads,
            near=[gpu.near_cores for gpu in gpus],
            shared=device.share_cores,
        )
        uses_onnxruntime = any(backend.engine == "ortmodule" for backend in config.backends.values())
        compiled = cuda_cache(os.environ, Path(sys.prefix)).exists()
        self._first_use = describe_first_use(gpus) if uses_onnxruntime and not compiled else ""
        self.plan = plan = resolve(config, stem, overrides, gpus=gpus, cores=self.cores)
        self.output = plan.output
        self.bar = bar or ProgressBar(Console(stderr=True))
        self.earlier = take_over_earlier_run(plan.output, plan.records, resume=plan.resume)
        self.names = [name for name in plan.names if name not in self.earlier.failed]
        self.ledger = Ledger(plan.output, plan.records, self.earlier)
        self.failures = Failures(self.ledger, plan.output, plan.schedule.launches, self.bar)
        sampler = GpuSampler(_devices(gpus, device.ranks_per_node, nodes))
        self.starter = GroupStarter(plan.launching, plan.output, plan.parity.reference, start_group, nodes)
        ours = frozenset(itertools.chain(*self.cores))
        look = look or partial(look_at_others, ours)
        self.timer = BlockTimer(plan.blocks, sampler, self.ledger, look)
        self.parity = ParityLaunch(
            plan.parity,
            plan.output,
            self.starter,
            self.ledger,
            self.failures,
            self.bar,
            self._after(),
        )
        self.search = Search(
            plan.search,
            self.earlier.micro_batches,
            plan.output,
            self.starter,
            self.timer,
            self.ledger,
            self.failures,
            self.bar,
        )
        self.timed_launch = TimedLaunch(
            plan.schedule,
            self.earlier.steps if plan.converge is None else plan.converge.steps,
            self.starter,
            self.timer,
            Evaluations(plan.converge, plan.output, self.ledger, self.earlier),
            sampler,
            self.ledger,
            self.failures,
            self.search.step_down,
            QuietCores(len(ours), plan.schedule.wait_s, look, self.bar),
            self.bar,
        )
        self.explanation = Explanation(
            plan.explain, plan.output, plan.records, self.starter, self.timer, self.bar
        )
        self.step_parts = StepParts(plan.parts, plan.output, plan.records, self.starter, self.bar)
        self.stopping = Stopping(plan.schedule, self.earlier, len(self.names), clock)

    def _after(self) -> AfterTraining:
        """What follows training in the parity launch."""
        plan = self.plan
        match plan.after:
            case ExportPlan():
                return AfterExport(plan.after, plan.output, plan.records, self.bar)
            case CheckpointPlan():
                return AfterCheckpoint(
                    plan.after, plan.output, plan.records, self.starter, self.failures, self.bar
                )
            case None:
                return NothingAfterTraining()

    def measure(self) -> None:
        """Parity, then every launch; what fails leaves a row and the others go on."""
        self._announce_to_progress_bar()
        if words := describe_reference(self.plan.parity.reference, self.plan.names):
            self.bar.print_line(words)
        if words := self._first_use:
            self.bar.print_line(words)
        if self.plan.resume:
            self.bar.print_line(self.earlier.summary(self.output.csv))
            if not self._is_anything_missing():
                self.bar.print_line("nothing is missing")
                self.ledger.write()
                return
        state, large = self.output.initial_state, (self.output.expected_tensors, self.output.checkpoints)
        runs = self.output.folder.parent  # what is large there was left by one that was killed
        for left in runs.glob(f"*/{state.name}"):
            left.unlink(missing_ok=True)
        for path in large:
            for left in runs.glob(f"*/{path.name}"):
                shutil.rmtree(left, ignore_errors=True)
        try:
            passed = self.parity.run(self.names)
            if self.plan.parity.parity_only:
                self.step_parts.run(passed)
                return
            unsearched = len(self.search.still_to_search(passed)) - len(
                self.search.still_to_search(self.names)
            )
            self.bar.expect({"trial": USUAL_TRIALS * unsearched})
            if names := self.search.run(passed):
                self._run_launches(names)
                self.explanation.run(self._timed_names())
                self.step_parts.run(self._timed_names())
        finally:
            state.unlink(missing_ok=True)  # as large as the model, and easily made again
            for path in large:
                shutil.rmtree(path, ignore_errors=True)

    def _run_launches(self, names: Sequence[str]) -> None:
        """The launches that are missing, and with `measure.until` more until that is reached."""
        self.stopping.start_clock()
        missing = self.stopping.missing(names)
        for launches in itertools.count():  # so many have been made
            if launches >= missing:
                if not self._wants_another(launches):
                    return
                self.bar.expect(self.timed_launch.planned(len(self.names)))
            stepped_down = sum(self.search.steps_down.values())
            launch = timed(self.earlier.last_launch + launches + 1)
            self.timed_launch.run(names, launch)
            if self._ends_on_busy_cores(launch, made=launches + 1, missing=missing):
                return
            if sum(self.search.steps_down.values()) > stepped_down:
                # That backend has lost its rounds and starts over with the next launch.
                needed = launches + 1 + self.plan.schedule.launches
                self._expect_launches(max(0, needed - missing))
                missing = max(missing, needed)

    def _ends_on_busy_cores(self, launch: Launch, *, made: int, missing: int) -> bool:
        """Whether other processes spoiled this launch for all backends, and launches would still follow."""
        spoiling = self.timed_launch.describe_spoiling(launch)
        if not spoiling:
            return False
        if made >= missing and not self.stopping.decide_on_another_launch(self.ledger.rows, made).another:
            return False
        remedy = "end them, and go on with resume=true, which keeps what is measured"
        self.failures.note_incomplete(UserError(f"{spoiling}, so that no more were made", remedy))
        return True

    def _timed_names(self) -> list[str]:
        """The backends with timed blocks that ended well."""
        rows = self.ledger.rows()
        timed_well = set(rows.loc[rows["round"].notna() & (rows["status"] == "ok"), "backend"])
        failed = set(rows.loc[rows["round"].isna(), "backend"])
        return [name for name in self.plan.names if name in timed_well - failed]

    def _wants_another(self, launches: int) -> bool:
        decision = self.stopping.decide_on_another_launch(self.ledger.rows, launches)
        if decision.reason:
            self.bar.print_line(decision.reason)
        return decision.another

    def _is_anything_missing(self) -> bool:
        """Whether a run that resumes an earlier one has anything to measure."""
        parity_is_missing = self.plan.parity.parity_only and bool(self.names)
        launches_are_missing = bool(self.stopping.missing(self.names)) or self._wants_another(0)
        return (
            launches_are_missing
            or parity_is_missing
            or self.explanation.is_missing(self._timed_names())
            or self.step_parts.is_missing(self._timed_names())
        )

    def _announce_to_progress_bar(self) -> None:
        """Tell the progress bar how many things of each kind will be done at least."""
        missing = self.stopping.missing(self.names)
        if missing or (self.plan.parity.parity_only and self.names):
            self.bar.expect({"parity": self.parity.planned(len(self.names))})
            self.bar.expect(self.explanation.planned(len(self.names)))
            self.bar.expect(self.step_parts.planned(len(self.names)))
        if missing:
            self.bar.expect({"trial": USUAL_TRIALS * len(self.search.still_to_search(self.names))})
        self._expect_launches(missing)

    def _expect_launches(self, launches: int) -> None:
        in_a_launch = self.timed_launch.planned(len(self.names))
        self.bar.expect({kind: count * launches for kind, count in in_a_launch.items()})


def _devices(gpus: Sequence[Gpu], ranks_per_node: int, nodes: NodePool | None) -> list[SampledDevice]:
    """The GPUs of every rank, on this node and on the others; none on a CPU."""
    devices: list[SampledDevice] = [GpuMeter(gpu.uuid) for gpu in gpus[:ranks_per_node]]
    if nodes is not None and gpus:
        devices += [
            RemoteDevice(nodes, place, local_rank)
            for place in range(len(nodes.members))
            for local_rank in range(ranks_per_node)
        ]
    return devices
