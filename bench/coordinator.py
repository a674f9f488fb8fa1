"""One comparison from configuration to CSV, table and figure: parity first, then the launches.

Imports no torch; the worker groups do the work, one block at a time.
"""

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import environment, plan, report, results
from bench.config import Config, measured
from bench.errors import LaunchFailed
from bench.launch.channel import Message
from bench.launch.environment import worker_environment
from bench.launch.group import Group
from bench.parity import Trajectory, check_parity
from bench.progress import Bar
from bench.records import PARITY_LAUNCH, Block, Phase, Record, Workload
from bench.report.table import TERMINAL_WIDTH, terminal
from bench.spec import WorkerSpec
from bench.telemetry.gpus import short_name, visible_gpus


def run(config: Config, stem: str) -> list[str]:
    """Measure the comparison and leave its CSV, table and figure.

    Args:
        config: checked against this machine.
        stem: the results file's name without its ending.

    Returns:
        One line for each launch that was not ok.
    """
    console = Console(stderr=True)
    comparison = Comparison(config, stem)
    with Bar(comparison.planned(), console) as bar:
        comparison.measure(bar)
    made = report.render(comparison.csv, Path(config.reports_dir))
    Console(width=TERMINAL_WIDTH).print(terminal(results.read(comparison.csv)))
    for path in (comparison.csv, *made):
        console.print(f"wrote {path}", markup=False, highlight=False)
    return comparison.failures()


class Comparison:
    """The state of one comparison: its records so far, and what every launch of it needs."""

    def __init__(self, config: Config, stem: str, start_group: Callable[..., Group] = Group) -> None:
        self.config = config
        self.start_group = start_group
        self.stem = stem
        started = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        self.folder = Path(config.results_dir).resolve() / "runs" / stem / started
        self.initial_state = self.folder / "initial.safetensors"
        self.csv = Path(config.results_dir) / f"{stem}.csv"
        self.names = [
            config.reference,
            *(name for name in config.backends if name != config.reference),
        ]
        self.records: dict[tuple[int, str], Record] = {}
        self.steps: int | None = None  # of a timed block, found once
        self.trajectories: dict[str, Trajectory] = {}
        self.loss_differences: dict[str, float] = {}
        self.gpus = visible_gpus() if config.device.type == "cuda" else []
        self.environment = environment.collect()
        self.commit = environment.git_commit()

    # --- the whole of it ------------------------------------------------------------------------------

    def planned(self) -> dict[str, int]:
        """How many things of each kind will be done, for the progress bar."""
        measure, backends = self.config.measure, len(self.names)
        return {
            "parity": 1 if measure.resident == "all" else backends,
            "start": measure.launches * (1 if measure.resident == "all" else backends),
            "set-up": measure.launches * backends,
            "block": measure.launches * measure.rounds * backends,
        }

    def measure(self, bar: Bar) -> None:
        """Parity, then every launch; what fails leaves a row and the others go on."""
        names = self.check_parity(bar)
        if not names:
            return
        try:
            self._run_launches(bar, names)
        finally:
            self.initial_state.unlink(missing_ok=True)  # as large as the model, and easily made again

    def _run_launches(self, bar: Bar, names: Sequence[str]) -> None:
        measure = self.config.measure
        if measure.resident == "all":
            orders = plan.launch_orders(names, launches=measure.launches, rounds=measure.rounds)
            for number, rounds in enumerate(orders, start=1):
                self.run_launch(bar, number, names, rounds)
            return
        for number, order in enumerate(plan.group_orders(names, measure.launches), start=1):
            for name in order:
                self.run_launch(bar, number, [name], [order] * measure.rounds)

    def failures(self) -> list[str]:
        """One line for each launch that was not ok."""
        return [
            f"{self.stem}: {record.backend}, {self._launch_name(record.launch)}: "
            f"{record.status}: {record.message}"
            for record in self.records.values()
            if record.status != "ok"
        ]

    # --- parity ---------------------------------------------------------------------------------------

    def check_parity(self, bar: Bar) -> list[str]:
        """Compare every backend's losses with the reference's; the names of those that may be timed."""
        together = [self.names] if self.config.measure.resident == "all" else [[name] for name in self.names]
        for names in together:
            with bar.doing("parity", f"parity of {', '.join(names)} (dropout off)"):
                self.trajectories |= self._train_for_parity(names)
        passed: list[str] = []
        for name in [name for name in self.names if name in self.trajectories]:  # the reference first
            with self._failing_into_row(name, PARITY_LAUNCH):
                if name != self.config.reference and self.config.reference not in passed:
                    raise self._without_reference()
                self.loss_differences[name] = check_parity(
                    self.trajectories[name],
                    self.trajectories[self.config.reference],
                    self.config.measure.parity_tolerance,
                )
                passed.append(name)
        self._write()
        return passed

    def _train_for_parity(self, names: Sequence[str]) -> dict[str, Trajectory]:
        """Each backend's losses and gradient norms over the parity steps, of two batches in turn.

        The groups run side by side, since nothing here is timed.
        """
        trajectories: dict[str, Trajectory] = {}
        with ExitStack() as stack:
            groups: dict[str, Group] = {}
            self._start_all(names, PARITY_LAUNCH, groups, stack)
            reference = self.config.reference
            if reference in groups:
                # It saves the initial state that the others load.
                with self._failing_into_row(reference, PARITY_LAUNCH, groups):
                    groups[reference].request("build")
            requests: list[tuple[str, dict[str, Any]]] = [
                ("build", {}),
                ("use_first_batches", {"count": 2 * self.config.grad_accum}),
                ("follow", {"steps": self.config.measure.parity_steps}),
            ]
            for action, arguments in requests:
                asked = [name for name in groups if action != "build" or name != reference]
                for name in asked:
                    with self._failing_into_row(name, PARITY_LAUNCH, groups):
                        if action == "build" and not self.initial_state.exists():
                            raise self._without_reference()
                        groups[name].ask(action, **arguments)
                for name in [name for name in asked if name in groups]:
                    with self._failing_into_row(name, PARITY_LAUNCH, groups):
                        answers = groups[name].answers(action)
                        if action == "follow":
                            trajectories[name] = Trajectory(
                                losses=mean_over_ranks(answers, "losses"),
                                gradient_norms=mean_over_ranks(answers, "gradient_norms"),
                            )
            for group in groups.values():
                group.end()
        return trajectories

    def _without_reference(self) -> LaunchFailed:
        return LaunchFailed(
            "skipped", f"the reference backend {self.config.reference} failed the parity launch"
        )

    # --- timed launches -------------------------------------------------------------------------------

    def run_launch(self, bar: Bar, number: int, names: Sequence[str], rounds: Sequence[plan.Order]) -> None:
        """Start the groups of `names`, time their blocks round by round, end them."""
        with ExitStack() as stack:
            groups: dict[str, Group] = {}
            with bar.doing("start", f"{self._launch_name(number)}: starting {', '.join(names)}"):
                self._start_all(names, number, groups, stack)
            for name in [name for name in rounds[0] if name in groups]:
                with (
                    bar.doing("set-up", f"{self._launch_name(number)}: {name}, set-up and warm-up"),
                    self._failing_into_row(name, number, groups),
                ):
                    self._set_up(groups[name], name, number)
                    self._rest(groups[name])
            for round_number, order in enumerate(rounds, start=1):
                where = f"{self._launch_name(number)}, round {round_number}/{len(rounds)}"
                for position, name in enumerate(order, start=1):
                    if name not in groups:
                        continue
                    with (
                        bar.doing("block", f"{where}: {name}"),
                        self._failing_into_row(name, number, groups),
                    ):
                        self._time_block(groups, name, number, round_number, position)
                        self._rest(groups[name])
                self._write()
            for group in groups.values():
                group.end()

    def _set_up(self, group: Group, name: str, number: int) -> None:
        built = group.request("build")
        self._update(
            name,
            number,
            setup=phase(built),
            workload=dataclasses.replace(
                self._workload(),
                parameters=built[0]["parameters"],
                padding_share=sum(answer["padding_share"] for answer in built) / len(built),
            ),
        )
        first = group.request("first_step")
        self._update(
            name,
            number,
            first_step=phase(first),
            proof=first[0]["proof"],
            optimizer_state_bytes=per_rank(first, "optimizer_state_bytes"),
        )
        self._warm_up(group)

    def _warm_up(self, group: Group) -> None:
        """Steps until the process has stopped growing."""
        steps = self.config.measure.warmup_steps
        for _ in range(MOST_WARMUP_BLOCKS):
            answers = group.request("block", steps=steps)
            if max(per_rank(answers, "page_faults")) <= STEADY_PAGE_FAULTS * steps:
                return

    def _time_block(
        self, groups: dict[str, Group], name: str, number: int, round_number: int, position: int
    ) -> None:
        if self.steps is None:
            self.steps = self._calibrate(groups)
        answers = groups[name].request("block", steps=self.steps)
        losses = [answer["losses"][-1] for answer in answers]
        if not all(math.isfinite(loss) for answer in answers for loss in answer["losses"]):
            raise LaunchFailed("diverged", f"the loss is {losses[0]} in round {round_number}")
        block = Block(
            round=round_number,
            position=position,
            steps=self.steps,
            last_loss=tuple(losses),
            **{key: per_rank(answers, key) for key in MEASURED_PER_RANK},
        )
        record = self.records[number, name]
        self._update(name, number, blocks=(*record.blocks, block))

    def _rest(self, group: Group) -> None:
        """Keep a group from taking any time while another one is measured."""
        if self.config.measure.resident == "all":
            group.pause()

    def _calibrate(self, groups: dict[str, Group]) -> int:
        """The number of steps of every timed block, from the reference backend where it runs."""
        group = groups.get(self.config.reference) or next(iter(groups.values()))
        count = self.config.measure.warmup_steps
        # The faster of two: one disturbance would shorten every block of the comparison.
        seconds = min(
            max(answer["seconds"] for answer in group.request("block", steps=count)) for _ in range(2)
        )
        return plan.steps_per_block(seconds / count, self.config.measure.block_seconds)

    # --- shared ---------------------------------------------------------------------------------------

    @contextmanager
    def _failing_into_row(
        self, name: str, number: int, groups: dict[str, Group] | None = None
    ) -> Iterator[None]:
        """Turn a failure of this backend into its record, end its group and let the others go on."""
        try:
            yield
        except LaunchFailed as failure:
            group = groups.pop(name, None) if groups is not None else None
            if group is not None:
                group.close()
            folder = self._group_folder(name, number)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "error.txt").write_text(failure.details or failure.message, encoding="utf-8")
            self._update(
                name,
                number,
                status=failure.status,
                message=failure.message,
                log_tail=group.log_tail() if group is not None else "",
            )

    def _start_all(
        self, names: Sequence[str], number: int, groups: dict[str, Group], stack: ExitStack
    ) -> None:
        """Start the groups of `names` side by side; those whose ranks report are in `groups` then."""
        for name in names:
            with self._failing_into_row(name, number, groups):
                groups[name] = stack.enter_context(self._start(name, number))
        for name in list(groups):
            with self._failing_into_row(name, number, groups):
                groups[name].connect()

    def _start(self, name: str, number: int) -> Group:
        device = self.config.device
        return self.start_group(
            self._spec(name, number),
            world_size=device.world_size,
            folder=self._group_folder(name, number),
            variables=worker_environment(
                os.environ,
                device=device.type,
                threads=device.threads,
                allocator=device.allocator,
                precision=self.config.precision.name,
            ),
            timeout_s=self.config.measure.timeout_s,
        )

    def _spec(self, name: str, number: int) -> WorkerSpec:
        config, backend = self.config, self.config.backends[name]
        shares = plan.core_shares(
            sorted(os.sched_getaffinity(0)),
            world_size=config.device.world_size,
            threads=config.device.threads,
        )
        parity = number == PARITY_LAUNCH
        return WorkerSpec(
            backend=name,
            engine=backend.engine,
            optimizer=backend.optimizer_on(config.device.type),
            sharding=backend.sharding,
            model=config.model,
            data=config.data,
            adam=config.adam,
            precision=config.precision.name,
            attention=config.attention,
            micro_batch=config.micro_batch,
            grad_accum=config.grad_accum,
            seq_len=config.seq_len,
            seed=config.seed,
            dropout=not parity,
            device=config.device.type,
            device_uuids=tuple(gpu.uuid for gpu in self.gpus),
            threads=config.device.threads,
            cores=tuple(shares),
            initial_state=str(self.initial_state),
            saves_initial_state=parity and name == config.reference,
        )

    def _workload(self) -> Workload:
        config = self.config
        return Workload(
            model=config.model.name,
            task=config.model.task,
            precision=config.precision.name,
            attention=config.attention,
            world_size=config.device.world_size,
            micro_batch=config.micro_batch,
            grad_accum=config.grad_accum,
            seq_len=config.seq_len,
        )

    def _update(self, name: str, number: int, **changes: Any) -> None:
        """Replace this backend's record of this launch, and keep it on disk."""
        config, backend = self.config, self.config.backends[name]
        record = self.records.get((number, name)) or Record(
            comparison=self.stem,
            backend=name,
            reference=config.reference,
            engine=backend.engine,
            optimizer=backend.optimizer_on(config.device.type),
            sharding=backend.sharding,
            launch=number,
            status="ok",
            started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            git_commit=self.commit,
            stack=self.environment["stack"],
            device=short_name(self.gpus[0].name) if self.gpus else "cpu",
            threads_per_rank=config.device.threads,
            allocator=config.device.allocator,
            seed=config.seed,
            margin=config.measure.margin,
            workload=self._workload(),
            parity_losses=self.trajectories[name].losses if name in self.trajectories else (),
            parity_gradient_norms=self.trajectories[name].gradient_norms if name in self.trajectories else (),
            loss_difference=self.loss_differences.get(name),
            config=measured(config),
            config_hash=environment.digest(measured(config)),
            environment=self.environment,
            environment_hash=environment.digest(self.environment),
        )
        self.records[number, name] = dataclasses.replace(record, **changes)
        self.records[number, name].save(self._group_folder(name, number) / "record.json")

    def _write(self) -> None:
        if self.records:
            results.write(self.csv, list(self.records.values()))

    def _group_folder(self, name: str, number: int) -> Path:
        return self.folder / ("parity" if number == PARITY_LAUNCH else f"launch-{number}") / name

    def _launch_name(self, number: int) -> str:
        if number == PARITY_LAUNCH:
            return "parity launch"
        return f"launch {number}/{self.config.measure.launches}"


STEADY_PAGE_FAULTS = 2000
"""Page faults per step (of 4 KiB, so 8 MiB) below which memory counts as settled."""

MOST_WARMUP_BLOCKS = 4
"""Warm-up ends after this many blocks of `measure.warmup_steps`, settled or not."""

MEASURED_PER_RANK = (
    "seconds",
    "cpu_seconds",
    "page_faults",
    "host_peak_bytes",
    "torch_peak_allocated_bytes",
    "torch_peak_reserved_bytes",
    "device_used_bytes",
    "energy_joules",
)
"""What every rank's answer to `block` holds under the names of `Block`."""


def per_rank(answers: Sequence[Message], key: str) -> tuple[Any, ...]:
    """One figure of every rank."""
    return tuple(answer[key] for answer in answers)


def phase(answers: Sequence[Message]) -> Phase:
    """A phase from the answers of every rank."""
    return Phase(seconds=per_rank(answers, "seconds"), host_peak_bytes=per_rank(answers, "host_peak_bytes"))


def mean_over_ranks(answers: Sequence[Message], key: str) -> tuple[float, ...]:
    """A figure of every step, mean over the ranks."""
    return tuple(sum(figures) / len(figures) for figures in zip(*per_rank(answers, key), strict=True))
