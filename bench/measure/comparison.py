"""One comparison from its configuration to its results file: parity, the search if wanted, timed launches."""

import fcntl
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.config.backend import describe_reference
from bench.config.schema import Config
from bench.errors import UserError
from bench.launch.agents import end_spares
from bench.launch.group import Group
from bench.machine.gpus import describe_first_use, visible_gpus
from bench.machine.telemetry.gpu_meter import GpuMeter
from bench.machine.telemetry.gpu_sampler import GpuSampler, SampledDevice
from bench.machine.telemetry.other_processes import Scan, scan_cores
from bench.measure.groups.blocks import BlockTimer
from bench.measure.groups.busy_cores import QuietCores
from bench.measure.groups.device_memory import DeviceMemory
from bench.measure.groups.starting import GroupStarter
from bench.measure.plan.cores import core_shares, leaving_the_ranks_cores
from bench.measure.plan.plans import Output
from bench.measure.plan.resolve import resolve
from bench.measure.record.failures import Failures
from bench.measure.record.ledger import Ledger
from bench.measure.record.progress import ProgressBar, describe_duration
from bench.measure.record.resume import take_over_earlier_run
from bench.measure.stages.device_fit import DeviceFit
from bench.measure.stages.parity import Parity
from bench.measure.stages.stage import Run, Stage
from bench.measure.stages.timed import TimedLaunches
from bench.results.atomic import reporting_write_errors
from bench.results.machines import keep_identity
from bench.study import load_plugin, load_wanted


@dataclass(frozen=True, kw_only=True)
class ComparisonOutcome:
    """What a comparison leaves: its results file, and a line for each launch that was not ok."""

    csv: Path
    failures: list[str]


def measure_comparison(
    config: Config, stem: str, show_verdict: Callable[[ComparisonOutcome], None] | None = None
) -> ComparisonOutcome:
    """Measure a comparison that fits this machine, and write its results file.

    `show_verdict` is called before stages that only add to the verdict. UserError if another process measures
    the same, other nodes are missing, or the disk is full.
    """
    bar = ProgressBar(Console(stderr=True))
    folder = Path(config.results_dir)
    if folder.parts[-2:] == (config.machine, config.study):
        with reporting_write_errors(folder):
            keep_identity(folder.parent)
    several = load_plugin("cluster.node_pool") if config.device.nnodes > 1 else None
    connected = several.connected_nodes(config, bar.print_line) if several else nullcontext()
    with locked(folder / "runs" / stem, stem), connected as nodes:
        comparison = Comparison(config, stem, bar=bar, nodes=nodes, show_verdict=show_verdict)
        with leaving_the_ranks_cores(comparison.shared.plan.cores), bar:
            comparison.measure()
    return comparison.outcome()


class Comparison:
    """Makes what the stages share, and the stages that are wanted; runs one after the other.

    Tests give their own `start_group`, `scan` and `clock`. `nodes` are the others, a
    `bench.plugins.cluster.node_pool.NodePool`. UserError if an earlier run cannot be resumed.
    """

    def __init__(
        self,
        config: Config,
        stem: str,
        *,
        start_group: Callable[..., Group] = Group,
        scan: Scan | None = None,
        bar: ProgressBar | None = None,
        clock: Callable[[], float] = time.monotonic,
        nodes: Any = None,
        show_verdict: Callable[[ComparisonOutcome], None] | None = None,
    ) -> None:
        device, measure = config.device, config.measure
        if nodes is None and device.nnodes > 1:
            raise UserError("This runs on one node only; leave device.nnodes and device.rdzv_endpoint out.")
        gpus = visible_gpus() if device.type == "cuda" else []
        cores = core_shares(
            sorted(os.sched_getaffinity(0)),
            world_size=device.ranks_per_node,
            threads=device.threads,
            held=device.pin_cores,
            near=[gpu.near_cores for gpu in gpus],
            shared=device.share_cores,
        )
        ours = frozenset(itertools.chain(*cores))
        scan = scan or partial(scan_cores, ours)
        plan = resolve(config, stem, gpus=gpus, cores=cores)
        uses_onnxruntime = any(backend.engine == "ortmodule" for backend in config.backends.values())
        self._first_words = [
            describe_reference(plan.reference, plan.backends),
            describe_first_use(gpus) if uses_onnxruntime else "",
        ]
        bar = bar or ProgressBar(Console(stderr=True))
        of_studies: list[type[Stage]] = [part.STAGE for part in load_wanted("stage", config)]
        of_studies.sort(key=lambda stage: bool(stage.after_verdict))  # last what no verdict waits for
        wanted: list[type[Stage]] = [
            *(stage for stage in of_studies if stage.before_timing),
            *([TimedLaunches] if measure.launches else []),
            *(stage for stage in of_studies if not stage.before_timing),
        ]
        beside = [part.TABLE for part in load_wanted("table", config)]
        earlier = take_over_earlier_run(plan.output, plan.records, resume=config.resume, beside=beside)
        ledger = Ledger(plan.output, plan.records, earlier)
        micro_batches = dict(earlier.micro_batches) if measure.batch != "equal" else {}
        starter = GroupStarter(plan, start_group, nodes, micro_batches)
        devices: list[SampledDevice] = [GpuMeter(gpu.uuid) for gpu in gpus[: device.ranks_per_node]]
        sampler = GpuSampler([*devices, *(nodes.devices() if nodes and gpus else [])])
        smallest = min((gpu.memory_total_bytes for gpu in gpus), default=0)  # other nodes' GPUs are equal
        memory = DeviceMemory(sampler, smallest, in_turns=plan.interleaved)
        self.shared = run = Run(
            plan=plan,
            names=[name for name in plan.backends if name not in earlier.failed],
            earlier=earlier,
            ledger=ledger,
            failures=Failures(ledger, measure.launches, bar),
            starter=starter,
            timer=BlockTimer(plan, sampler, memory, ledger, scan),
            memory=memory,
            quiet=QuietCores(len(ours), measure.wait_s, scan, bar),
            bar=bar,
            clock=clock,
            show_verdict=show_verdict and (lambda: show_verdict(self.outcome())),
        )
        self.parity = Parity(run)
        others = [stage(run) for stage in wanted]
        run.starts_after_timing = any(stage.after_verdict for stage in others)
        self.fit = DeviceFit(run)
        self.stages: list[Stage] = [self.parity, self.fit, *others]

    def outcome(self) -> ComparisonOutcome:
        """What has been measured so far."""
        run = self.shared
        return ComparisonOutcome(csv=run.output.csv, failures=run.failures.failure_lines())

    def measure(self) -> None:
        """Run the stages; what fails leaves a row and the others go on."""
        run, names = self.shared, self.shared.names
        for words in filter(None, self._first_words):
            run.bar.print_line(words)
        if run.plan.config.resume:
            run.bar.print_line(run.earlier.summary(run.output.csv))
            if not any(stage.is_missing() for stage in self.stages):
                run.bar.print_line("nothing is missing")
                run.ledger.write()
                return
        expected = [stage.expected() for stage in self.stages]
        for things in expected:
            run.bar.expect(things)
        _remove_large_files(run.output)
        with ExitStack() as at_the_end:
            at_the_end.callback(_remove_large_files, run.output)
            at_the_end.callback(end_spares)
            for stage in self.stages:
                names = stage.run(names)
                if stage is self.fit and names:
                    run.names = names
                    for things, now in zip(expected, [each.expected() for each in self.stages], strict=True):
                        run.bar.expect({kind: now[kind] - count for kind, count in things.items()})
                    self._estimate()

    def _estimate(self) -> None:
        """Say how long what follows the parity launch will take, by its pace."""
        bar, later = self.shared.bar, {}
        for stage in self.stages:
            bar.guess(stage.guess())
            if stage.after_verdict:
                later[stage.after_verdict] = bar.seconds_of(stage.expected()) or 0.0
        if left := bar.seconds_left():
            parts = {"until the verdict": left - sum(later.values()), **later}
            said = [f"{describe_duration(seconds)} {words}" for words, seconds in parts.items() if seconds]
            bar.print_line(", then ".join(said))


@contextmanager
def locked(folder: Path, stem: str) -> Iterator[None]:
    """Hold a comparison's lock, in its raw runs, or refuse; the kernel releases a killed process's."""
    with ExitStack() as stack:
        with reporting_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((folder / "lock").open("a"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{stem} is being measured by another process (it holds {lock.name}); "
                "wait for it, or choose another results_dir."
            ) from None
        yield


def _remove_large_files(output: Output) -> None:
    """Remove files as large as the model, those of a run that was killed, too: they are easily remade."""
    for large in (output.initial_state, output.expected_tensors, output.late_weights):
        for left in output.folder.parent.glob(f"*/{large.name}"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
