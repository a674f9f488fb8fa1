"""One comparison from configuration to CSV, table and figure: parity first, then the launches.

With measure.batch=max the largest micro-batch of each backend is searched for between the two.

Imports no torch; the worker groups do the work, one block at a time.
"""

import dataclasses
import fcntl
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.analysis.summary import summarise, widest_half_width
from bench.cluster.nodes import Nodes, RemoteDevice, gathered
from bench.cluster.remote import Assignment
from bench.config import identity
from bench.config.schema import Config
from bench.errors import PASSED, LaunchFailed, UserError
from bench.launch.channel import Message
from bench.launch.group import Group
from bench.launch.spec import WorkerSpec
from bench.machine.telemetry.device import Device
from bench.machine.telemetry.gpus import visible_gpus
from bench.machine.telemetry.sampler import Sampled, Sampler
from bench.machine.variables import worker_environment
from bench.measure import largest, plan
from bench.measure.largest import SEARCH
from bench.measure.ledger import Ledger
from bench.measure.parity import GRADIENT_TOLERANCE, Trajectory, check_parity
from bench.measure.progress import Bar
from bench.results import arithmetic, validity
from bench.results.disk import reporting_write_errors
from bench.results.prediction import predict
from bench.results.records import PARITY_LAUNCH, Block, Phase, Product, Roofline, Trial, WarmUp, Workload
from bench.setup import stacks


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a comparison leaves: its results file, and a line for each launch that was not ok."""

    csv: Path
    failures: list[str]


def measure_comparison(config: Config, stem: str, command: str) -> Outcome:
    """Measure one comparison and write its results file.

    Args:
        config: checked against this machine.
        stem: the results file's name without its ending.
        command: that makes this comparison again, for the record.

    Raises:
        UserError: another process measures the same comparison, or the disk is full.
    """
    say = Console(stderr=True).print
    with (
        locked(Path(config.results_dir) / "runs" / stem, stem),
        gathered(config, lambda line: say(line, markup=False, highlight=False, soft_wrap=True)) as nodes,
    ):
        comparison = Comparison(config, stem, command=command, nodes=nodes)
        with (
            leaving_the_ranks_cores(comparison.cores),
            Bar(comparison.planned(), Console(stderr=True)) as bar,
        ):
            comparison.measure(bar)
    return Outcome(csv=comparison.ledger.csv, failures=comparison.failures())


@contextmanager
def locked(folder: Path, stem: str) -> Iterator[None]:
    """Make sure that nobody else measures the same comparison; the kernel ends this with the process.

    Raises:
        UserError: somebody does.
    """
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


@contextmanager
def leaving_the_ranks_cores(cores: Sequence[tuple[int, ...]]) -> Iterator[None]:
    """Keep this process off the ranks' cores where there are others."""
    ours = os.sched_getaffinity(0)
    if others := ours - set(itertools.chain(*cores)):
        os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


class Comparison:
    """One comparison's course, and what every launch of it needs.

    Args:
        config: checked against this machine.
        stem: the results file's name without its ending.
        start_group: starts a worker group; tests give their own.
        clock: seconds, for the cap of `measure.until`.
        command: that makes this comparison again, for the record.
        nodes: the others, if there are to be several.

    Raises:
        UserError: the configuration asks for several, and whoever called has none.
    """

    def __init__(
        self,
        config: Config,
        stem: str,
        start_group: Callable[..., Group] = Group,
        clock: Callable[[], float] = time.monotonic,
        command: str = "",
        nodes: Nodes | None = None,
    ) -> None:
        if nodes is None and config.device.nnodes > 1:
            raise UserError("This runs on one node only; leave device.nnodes and device.rdzv_endpoint out.")
        self.config = config
        self.nodes = nodes
        self.start_group = start_group
        self.clock = clock
        self.gpus = visible_gpus() if config.device.type == "cuda" else []
        self.cores = self._shares(sorted(os.sched_getaffinity(0)))
        ranks = config.device.ranks_per_node
        devices: list[Sampled] = [Device(gpu.uuid) for gpu in self.gpus[:ranks]]
        if nodes is not None and self.gpus:
            devices += [
                RemoteDevice(nodes, place, local)
                for place in range(len(nodes.members))
                for local in range(ranks)
            ]
        self.sampler = Sampler(devices)
        self.ledger = Ledger(config, stem, self.gpus, cores_per_rank=len(self.cores[0]), command=command)
        self.names = [
            name
            for name in sorted(config.backends, key=lambda name: name != config.reference)
            if name not in self.ledger.kept.failed
        ]
        self.say: Callable[[str], None] = print
        self.started = clock()
        self.initial_state = self.ledger.folder / "initial.safetensors"
        self.steps = self.ledger.kept.steps  # of a timed block, once found
        self.untimed: dict[str, dict[str, Any]] = {}  # what the parity launch knows of a backend's record
        self.steps_down: dict[str, int] = {}  # of each backend whose micro-batch did not last a launch

    # --- the whole of it ------------------------------------------------------------------------------

    def planned(self) -> dict[str, int]:
        """How many things of each kind will be done at least, for the progress bar."""
        launches = self._missing(self.names)
        wanted = launches or self._untimed
        parity = {"parity": (1 if self._together else len(self.names)) if wanted else 0}
        trials = USUAL_TRIALS * len(self._searched(self.names)) if launches else 0
        launched = {kind: count * launches for kind, count in self._in_a_launch().items()}
        return parity | {"trial": trials} | launched

    def measure(self, bar: Bar) -> None:
        """Parity, then every launch; what fails leaves a row and the others go on."""
        self.say = bar.say
        if self.nodes is not None:
            self.nodes.say = bar.say
        if self.config.resume:
            bar.say(self._resumed())
            if not self._missing(self.names) and not self._wants_another(bar, 0) and not self._untimed:
                bar.say("nothing is missing")
                self.ledger.write()
                return
        for left in self.ledger.folder.parent.glob(f"*/{self.initial_state.name}"):
            left.unlink(missing_ok=True)  # by a run that was killed
        try:
            if names := self.find_largest(bar, self.check_parity(bar)):
                self._run_launches(bar, names)
        finally:
            self.initial_state.unlink(missing_ok=True)  # as large as the model, and easily made again

    def _resumed(self) -> str:
        """What is kept of an earlier run, in a sentence."""
        kept = self.ledger.kept
        if not kept.rows and not kept.retried:
            return f"nothing to go on from in {self.ledger.csv}: the comparison is measured from the start"
        rounds = ", ".join(f"{count} of {name}" for name, count in kept.rounds.items())
        what = f"going on with {self.ledger.csv}: rounds kept: {rounds or 'none'}"
        if kept.dropped:
            what += f"; {kept.dropped} without the reference are not"
        if kept.retried:
            what += f"; tried again: {', '.join(sorted({row['backend'] for row in kept.retried}))}"
        if kept.failed:
            what += f"; not tried again: {', '.join(sorted(kept.failed))}"
        return what

    def _missing(self, names: Sequence[str]) -> int:
        """How many launches of these backends are still to be made of those that were asked for."""
        if self.config.reference not in names:
            return 0
        measure = self.config.measure
        kept = self.ledger.kept
        missing = plan.missing_launches(
            launches=measure.launches, rounds=measure.rounds, done=kept.fewest(names)
        )
        return max(missing, int(any(row["backend"] in names for row in kept.retried)))

    def _run_launches(self, bar: Bar, names: Sequence[str]) -> None:
        """The launches that are missing, and with `measure.until` more until that is reached."""
        self.started = self.clock()
        before, missing = self.ledger.kept.last_launch, self._missing(names)
        for made in itertools.count():
            if made >= missing:
                if not self._wants_another(bar, made):
                    return
                bar.expect(self._in_a_launch())
            number, rounds = before + made + 1, self.config.measure.rounds
            stepped_down = sum(self.steps_down.values())
            if self._together:
                orders = plan.round_orders(names, launch=number, rounds=rounds)
                self.run_launch(bar, number, names, orders)
            else:
                order = plan.group_order(names, launch=number)
                for name in order:
                    self.run_launch(bar, number, [name], [order] * rounds)
            if sum(self.steps_down.values()) > stepped_down:  # that backend starts over with the next launch
                needed = made + 1 + self.config.measure.launches
                bar.expect({k: n * max(0, needed - missing) for k, n in self._in_a_launch().items()})
                missing = max(missing, needed)

    def _wants_another(self, bar: Bar, made: int) -> bool:
        """Whether, after `made` launches, an interval is still too wide and the caps allow one more."""
        measure = self.config.measure
        if measure.until is None or len(self.names) < 2:
            return False
        widest = widest_half_width(self.ledger.rows())
        if widest is None:
            bar.say("no backend has a speed-up, so that measure.until has nothing to wait for")
            return False
        launches = self.ledger.kept.launches + made
        if widest <= measure.until:
            bar.say(f"every interval is within ± {measure.until:.1%} after {launches} launches")
            return False
        reached = (
            f"the widest interval is ± {widest:.1%}" if math.isfinite(widest) else "no interval is known"
        )
        cap = ""
        if launches >= max(measure.launches, measure.most_launches):
            cap = f"measure.most_launches={measure.most_launches}"
        elif made and (self.clock() - self.started) * (made + 1) / made > measure.most_seconds:
            cap = f"measure.most_seconds={measure.most_seconds:g}"
        if cap:
            bar.say(f"{reached}, not ± {measure.until:.1%}: another launch would pass {cap}")
            return False
        bar.say(f"{reached}, not yet ± {measure.until:.1%}: launch {launches + 1} follows")
        return True

    def _in_a_launch(self) -> dict[str, int]:
        """How many things of each kind one launch of all backends has."""
        backends = len(self.names)
        return {
            "start": 1 if self._together else backends,
            "set-up": backends,
            "wake": backends if self._together and backends > 1 else 0,
            "block": self.config.measure.rounds * backends,
        }

    @property
    def _untimed(self) -> bool:
        """Whether parity is all that was asked for, and some of it is still to be done."""
        return not self.config.measure.launches and bool(self.names)

    @property
    def _together(self) -> bool:
        """Whether the groups of a launch live side by side."""
        return self.config.measure.resident == "all"

    def failures(self) -> list[str]:
        """A line for each launch that was not ok, and for each backend that has too few valid blocks."""
        rows = self.ledger.rows()
        failed = rows[rows["round"].isna() & ~rows["status"].isin(PASSED)]
        lines = [
            f"{self.ledger.stem}: {row.backend}, {self._launch_name(int(row.launch), row.message)}: "
            f"{row.status}: {row.message}{self._where_to_look(row.backend, int(row.launch))}"
            for row in failed.itertuples()
        ]
        return lines + [
            f"{self.ledger.stem}: {one.backend}: {one.status}: {one.message}"
            for one in summarise(rows)
            if one.status not in PASSED and one.backend not in set(failed["backend"])
        ]

    def _where_to_look(self, name: str, number: int) -> str:
        """The log of a launch of this run."""
        log = self.ledger.folder_of(name, number) / "log.txt"
        return f" (log: {log})" if log.exists() else ""

    # --- parity ---------------------------------------------------------------------------------------

    def check_parity(self, bar: Bar) -> list[str]:
        """Compare every backend's losses with the reference's; the names of those that may be timed."""
        together = [self.names] if self._together else [[name] for name in self.names]
        for names in together:
            with bar.doing("parity", f"parity of {', '.join(names)} (dropout off)"):
                self.ledger.trajectories |= self._train_for_parity(names)
        passed: list[str] = []
        for name in [name for name in self.names if name in self.ledger.trajectories]:  # the reference first
            with self._failing_into_row(name, PARITY_LAUNCH):
                if name != self.config.reference and self.config.reference not in passed:
                    raise self._without_reference()
                self.ledger.loss_differences[name] = check_parity(
                    self.ledger.trajectories[name],
                    self.ledger.trajectories[self.config.reference],
                    self.config.measure.parity_tolerance,
                    GRADIENT_TOLERANCE[self.config.precision.name],
                )
                passed.append(name)
                if not self.config.measure.launches:
                    self.ledger.update(name, PARITY_LAUNCH, status="untimed", **self.untimed[name])
        self.ledger.write()
        return passed if self.config.measure.launches else []

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
                    built = groups[reference].request("build")
                    self.untimed[reference] = {"workload": self._workload(reference, PARITY_LAUNCH, built)}
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
                        if action == "build":
                            self.untimed[name] = {"workload": self._workload(name, PARITY_LAUNCH, answers)}
                        if action == "follow":
                            self.untimed[name]["proof"] = answers[0]["proof"]
                            trajectories[name] = Trajectory(
                                losses=mean_over_ranks(answers, "losses"),
                                gradient_norms=mean_over_ranks(answers, "gradient_norms"),
                            )
            if reference in groups and self.config.measure.launches:
                self._find_roofline(groups)
            for group in groups.values():
                group.end()
        return trajectories

    def _find_roofline(self, groups: dict[str, Group]) -> None:
        """The work of a step and the devices' limit, from the reference's ranks while the others sleep.

        What fails leaves blanks and no row: parity is known by now, and nothing that is timed needs it.
        """
        reference = self.config.reference
        for name in groups.keys() - {reference}:
            groups[name].pause()
        try:
            self.ledger.roofline = roofline_of(groups[reference].request("roofline"))
        except LaunchFailed as failure:
            groups.pop(reference).close()
            self.ledger.roofline = Roofline(absent=(f"{failure.status}: {failure.message}",))
        for reason in self.ledger.roofline.absent:
            self.say(f"no share of the matrix-product rate: {reason}")

    def _without_reference(self) -> LaunchFailed:
        return LaunchFailed(
            "skipped", f"the reference backend {self.config.reference} failed the parity launch"
        )

    # --- the largest micro-batch ----------------------------------------------------------------------

    def _searched(self, names: Sequence[str]) -> list[str]:
        """Those of these backends whose largest micro-batch is wanted and not known from an earlier run."""
        if self.config.measure.batch != "max":
            return []
        return [name for name in names if name not in self.ledger.micro_batches]

    def find_largest(self, bar: Bar, names: Sequence[str]) -> list[str]:
        """Search for each backend's own micro-batch, if that is wanted; the names that may be timed."""
        searched = self._searched(names)
        bar.expect({"trial": USUAL_TRIALS * (len(searched) - len(self._searched(self.names)))})
        for name in searched:  # the reference first
            groups: dict[str, Group] = {}
            with self._failing_into_row(name, PARITY_LAUNCH, groups):
                if name != self.config.reference and self.config.reference not in self.ledger.micro_batches:
                    raise LaunchFailed(
                        "skipped", f"{SEARCH}the reference backend {self.config.reference} failed"
                    )
                self._search(bar, name, groups)
        self.ledger.write()
        return [name for name in names if name not in searched or name in self.ledger.micro_batches]

    def _search(self, bar: Bar, name: str, groups: dict[str, Group]) -> None:
        """Find one backend's micro-batch: it goes on record with all trials."""
        number = itertools.count(1)

        def attempt(micro_batch: int) -> Trial:
            return self._try(bar, name, next(number), micro_batch, groups)

        measure = self.config.measure
        found = largest.search(attempt, start=self.config.micro_batch, most_trials=measure.most_trials)
        found = largest.confirm(attempt, found)
        bar.expect({"trial": min(0, len(found.trials) - USUAL_TRIALS)})
        self.ledger.micro_batches[name] = found.micro_batch
        self.ledger.trials[name] = tuple(found.trials)
        bar.say(f"{name}: {found}")

    def _try(self, bar: Bar, name: str, number: int, micro_batch: int, groups: dict[str, Group]) -> Trial:
        """Does this micro-batch fit? A fresh group of this backend alone rehearses a launch.

        It has less memory than a launch, since at the edge heaps differ from process to process. As many
        steps as it has rounds follow the warm-up, since they still grow then. `_step_down` does the rest.

        Raises:
            LaunchFailed: for any other reason than memory, which is no answer.
        """
        message = ""
        with bar.doing("trial", f"{name}: does micro-batch {micro_batch} fit?"), ExitStack() as stack:
            folder = self.ledger.folder_of_trial(name, number)
            try:
                spec = dataclasses.replace(self._spec(name, TRIAL), micro_batch=micro_batch)
                if spec.memory_limit_bytes is not None:
                    limit = int(spec.memory_limit_bytes * (1 - largest.RESERVE))
                    spec = dataclasses.replace(spec, memory_limit_bytes=limit)
                groups[name] = stack.enter_context(self._group(spec, folder))
                groups[name].connect()
                self._watched(groups[name], "build")
                self._watched(groups[name], "first_step")
                self._warm_up_blocks(groups[name])
                for _ in range(self.config.measure.rounds):
                    groups[name].request("block", steps=1)
                groups[name].end()
            except OSError as error:
                raise LaunchFailed("crashed", f"{SEARCH}{type(error).__name__}: {error}") from error
            except LaunchFailed as failure:
                if failure.status != "oom":
                    where = f"{SEARCH}micro-batch {micro_batch}: {failure.message}"
                    raise LaunchFailed(failure.status, where, failure.details) from failure
                message = failure.message
        return Trial(micro_batch=micro_batch, fits=not message, message=message)

    def _step_down(self, name: str, number: int, failure: LaunchFailed) -> bool:
        """Whether a backend whose launch ran out of memory goes on with a smaller micro-batch.

        All that was measured of it goes, since a number counts only for a size at which whole launches ran.
        """
        found = self.ledger.micro_batches.get(name)
        if failure.status != "oom" or number == PARITY_LAUNCH or found is None:
            return False
        smaller = largest.step_down(found)
        if not smaller or self.steps_down.get(name, 0) >= largest.MOST_STEPS_DOWN:
            return False
        self.steps_down[name] = self.steps_down.get(name, 0) + 1
        self.ledger.forget(name)
        self.ledger.micro_batches[name] = smaller
        gone = Trial(micro_batch=found, fits=False, message=f"launch {number}: {failure.message}")
        self.ledger.trials[name] = (*self.ledger.trials.get(name, ()), gone)
        self.say(
            f"{name}, {self._launch_name(number)}: micro-batch {found} did not last a whole launch "
            f"({failure.message}); measured anew with {smaller}"
        )
        return True

    # --- timed launches -------------------------------------------------------------------------------

    def run_launch(self, bar: Bar, number: int, names: Sequence[str], rounds: Sequence[plan.Order]) -> None:
        """Start the groups of `names`, time their blocks round by round, end them."""
        with ExitStack() as stack:
            groups: dict[str, Group] = {}
            before = self.sampler.look_before_a_group()
            with bar.doing("start", f"{self._launch_name(number)}: starting {', '.join(names)}"):
                self._start_all(names, number, groups, stack)
            for name in [name for name in rounds[0] if name in groups]:
                with (
                    bar.doing("set-up", f"{self._launch_name(number)}: {name}, set-up and warm-up"),
                    self._failing_into_row(name, number, groups),
                ):
                    self.ledger.update(name, number, device_before=before)
                    self.set_up(groups[name], name, number)
                    self._rest(groups[name])
            self._wake(bar, number, rounds[0], groups)
            self._find_steps(number, groups)
            for round_number, order in enumerate(rounds, start=1):
                where = f"{self._launch_name(number)}, round {round_number}/{len(rounds)}"
                for position, name in enumerate(order, start=1):
                    if name not in groups:
                        continue
                    with (
                        bar.doing("block", f"{where}: {name}"),
                        self._failing_into_row(name, number, groups),
                    ):
                        self._time_block(bar, groups[name], name, number, round_number, position)
                        self._rest(groups[name])
                self.ledger.write()
            for group in groups.values():
                group.end()

    def set_up(self, group: Group, name: str, number: int) -> None:
        """Build, take the first step and warm up; everything goes on record."""
        built = self._watched(group, "build")
        self.ledger.update(
            name,
            number,
            setup=Phase(**self._figures(built)),
            workload=self._workload(name, number, built),
            host_runtime_bytes=per_rank(built, "host_runtime_bytes"),
            predicted=predict(
                parameters=built[0]["parameters"],
                trainable=built[0]["trainable_parameters"],
                sharding=self.config.backends[name].sharding,
                world_size=self.config.device.world_size,
                device=self.config.device.type,
            ),
        )
        first = self._watched(group, "first_step")
        self.ledger.update(
            name,
            number,
            first_step=Phase(**self._figures(first)),
            proof=first[0]["proof"],
            absent=self._absent(first),
            optimizer_state_bytes=per_rank(first, "optimizer_state_bytes"),
        )
        self._warm_up(group, name, number)

    def _workload(self, name: str, number: int, built: Sequence[Message]) -> Workload:
        """With what is known only once there is a model."""
        return dataclasses.replace(
            self.ledger.workload(name, number),
            parameters=built[0]["parameters"],
            trainable_parameters=built[0]["trainable_parameters"],
            padding_share=mean_of_known(per_rank(built, "padding_share")),
        )

    def _warm_up(self, group: Group, name: str, number: int) -> None:
        """Warm up, on record."""
        blocks = self._warm_up_blocks(group)
        self.ledger.update(name, number, warm_up=tuple(blocks), warm_up_settled=validity.has_settled(blocks))

    def _warm_up_blocks(self, group: Group) -> list[WarmUp]:
        """Blocks of a few steps until they are settled, but not for ever."""
        steps = self.config.measure.warmup_steps
        blocks: list[WarmUp] = []
        while not validity.has_settled(blocks) and len(blocks) < MOST_WARMUP_BLOCKS:
            answers = self._watched(group, "block", steps=steps)
            blocks.append(WarmUp(steps=steps, **self._figures(answers)))
        return blocks

    def _wake(self, bar: Bar, number: int, order: plan.Order, groups: dict[str, Group]) -> None:
        """One more untimed block of every group that has waited for the others' set-up.

        Caches and page tables are cold by then: the first block was 5 to 30 % slower than the next.
        """
        if len(groups) < 2:
            return
        for name in [name for name in order if name in groups]:
            with (
                bar.doing("wake", f"{self._launch_name(number)}: {name}, last warm-up"),
                self._failing_into_row(name, number, groups),
            ):
                groups[name].request("block", steps=self.config.measure.warmup_steps)
                self._rest(groups[name])

    def _time_block(
        self, bar: Bar, group: Group, name: str, number: int, round_number: int, position: int
    ) -> None:
        """Time one block; a contaminated one stays on record and is measured again, within the cap."""
        for attempt in itertools.count(1):
            answers = self._watched(group, "block", steps=self.steps)
            losses = per_rank(answers, "losses")
            if not all(math.isfinite(loss) for rank in losses for loss in rank):
                raise LaunchFailed("diverged", f"the loss is {losses[0][-1]} in round {round_number}")
            block = Block(
                round=round_number,
                position=position,
                attempt=attempt,
                steps=self.steps,
                last_loss=tuple(rank[-1] for rank in losses),
                loader_seconds=per_rank(answers, "loader_seconds"),
                loss_scale=answers[0]["loss_scale"],
                skipped_steps=answers[0]["skipped_steps"],
                **self._figures(answers),
            )
            record = self.ledger.records[number, name]
            blocks = (*record.blocks, block)
            self.ledger.update(name, number, blocks=blocks, absent=record.absent | self._absent(answers))
            contamination = validity.find_contamination(block, len(self.cores[0]))
            repeats = sum(one.attempt > 1 for one in blocks)
            if not contamination or repeats >= self.config.measure.repeats:
                return
            bar.say(f"{name}, launch {number}, round {round_number}: measuring again: {contamination}")

    def _watched(self, group: Group, action: str, **arguments: Any) -> list[Message]:
        """Ask for a phase and look at the devices while it runs."""
        self.sampler.start()
        return group.request(action, self.sampler, **arguments)

    def _absent(self, answers: Sequence[Message]) -> dict[str, str]:
        """Why a figure of the phase is missing, by its name, whoever could not have it."""
        absent = self.sampler.absent()
        for reasons in per_rank(answers, "absent"):
            absent |= reasons
        return absent

    def _figures(self, answers: Sequence[Message]) -> dict[str, Any]:
        """A phase's figures from the answers of every rank."""
        figures: dict[str, Any] = {key: per_rank(answers, key) for key in MEASURED_PER_RANK}
        return figures | {"samples": self.sampler.take()}

    def _rest(self, group: Group) -> None:
        """Keep a group from taking any time while another one is measured."""
        if self._together:
            group.pause()

    def _find_steps(self, number: int, groups: dict[str, Group]) -> None:
        """The number of steps of every timed block, once, from the reference backend where it runs."""
        while not self.steps and groups:
            name = self.config.reference if self.config.reference in groups else next(iter(groups))
            with self._failing_into_row(name, number, groups):
                self.steps = self.steps_of_a_block(groups[name])
                self._rest(groups[name])

    def steps_of_a_block(self, group: Group) -> int:
        """How many of this group's steps fit into a timed block."""
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
            if self._step_down(name, number, failure):
                self.ledger.write()
                return
            tail = group.log_tail() if group is not None else ""
            self.ledger.fail(name, number, failure, log_tail=tail)
            where = self._launch_name(number, failure.message)
            self.say(f"{name}, {where}: {failure.status}: {failure.message}")
            for line in last_lines(failure.details or tail):
                self.say(f"    | {line}")
            self.ledger.write()

    def _start_all(
        self, names: Sequence[str], number: int, groups: dict[str, Group], stack: ExitStack
    ) -> None:
        """Start the groups of `names` side by side; those whose ranks report are in `groups` then."""
        for name in names:
            with self._failing_into_row(name, number, groups):
                try:
                    groups[name] = stack.enter_context(self.start(name, number))
                except OSError as error:  # no process, no socket or no room for the temporary folder
                    raise LaunchFailed("crashed", f"{type(error).__name__}: {error}") from error
        for name in list(groups):
            with self._failing_into_row(name, number, groups):
                groups[name].connect()

    def start(self, name: str, number: int) -> Group:
        """Start one backend's group; its ranks may not have connected yet."""
        return self._group(self._spec(name, number), self.ledger.folder_of(name, number))

    def _group(self, spec: WorkerSpec, folder: Path) -> Group:
        device = self.config.device
        name = self.config.backends[spec.backend].stack
        stack = stacks.installed(name)
        assert stack is not None, "bench.measure.preflight.check_packages refuses a stack that is not there"
        settings = identity.environment_settings(self.config)
        return self.start_group(
            spec,
            world_size=device.world_size,
            folder=folder,
            variables=worker_environment(os.environ, **settings, prefix=stack.prefix),
            interpreter=stack.interpreter,
            timeout_s=self.config.measure.timeout_s,
            elsewhere=self._elsewhere(spec, settings, name or stacks.own()),
        )

    def _elsewhere(self, spec: WorkerSpec, settings: dict[str, Any], stack: str) -> list[Assignment]:
        """What the other nodes start for a group: the same, on their own cores and devices."""
        if self.nodes is None:
            return []
        self.nodes.require()
        return [
            Assignment(
                node=node,
                spec=dataclasses.replace(
                    spec,
                    cores=tuple(self._shares(node.cores)),
                    device_uuids=tuple(node.gpus) if self.gpus else (),
                ),
                settings=settings,
                stack=stack,
            )
            for node in self.nodes.members
        ]

    def _shares(self, cores: Sequence[int]) -> list[tuple[int, ...]]:
        """The cores of each rank on a node that has these."""
        device = self.config.device
        return plan.core_shares(
            cores, world_size=device.ranks_per_node, threads=device.threads, held=device.hold_threads
        )

    def _spec(self, name: str, number: int) -> WorkerSpec:
        config, backend = self.config, self.config.backends[name]
        parity, limit = number == PARITY_LAUNCH, config.device.memory_limit_gib
        return WorkerSpec(
            backend=name,
            engine=backend.engine,
            optimizer=backend.optimizer_on(config.device.type),
            sharding=backend.sharding,
            slowed_by=backend.slowed_by,
            model=config.model,
            data=config.data,
            adam=config.adam,
            precision=config.precision,
            attention=config.attention_of(name),
            checkpointing=config.checkpointing,
            micro_batch=self.ledger.micro_batch(name, number),
            grad_accum=config.grad_accum,
            seq_len=config.seq_len,
            seed=config.seed,
            dropout=not parity,
            device=config.device.type,
            device_uuids=tuple(gpu.uuid for gpu in self.gpus),
            threads=config.device.threads,
            holds_threads=config.device.hold_threads,
            cores=tuple(self.cores),
            memory_limit_bytes=None if limit is None else int(limit * 2**30 / config.device.world_size),
            initial_state=str(self.initial_state),
            saves_initial_state=parity and name == config.reference,
            nnodes=config.device.nnodes,
        )

    def _launch_name(self, number: int, message: str = "") -> str:
        if number == PARITY_LAUNCH:
            return "before the launches" if message.startswith(SEARCH) else "parity launch"
        return f"launch {number}/{max(number, self.config.measure.launches)}"


USUAL_TRIALS = 8
"""Of a search, for the estimate of the time that is left."""

TRIAL = 1
"""A trial is set up like the first timed launch, with dropout as published."""

MOST_WARMUP_BLOCKS = 6
"""Warm-up ends after this many blocks of `measure.warmup_steps`, settled or not."""

MOST_LINES, LONGEST_LINE = 6, 160
"""Of a failure's traceback or log on the terminal; all of it lies in the run folder."""

MEASURED_PER_RANK = tuple(field.name for field in dataclasses.fields(Phase) if field.name != "samples")
"""What every rank's answer to `build`, `first_step` and `block` holds under the names of `Phase`."""


def per_rank(answers: Sequence[Message], key: str) -> tuple[Any, ...]:
    """One figure of every rank."""
    return tuple(answer[key] for answer in answers)


def mean_over_ranks(answers: Sequence[Message], key: str) -> tuple[float, ...]:
    """A figure of every step, mean over the ranks."""
    return tuple(arithmetic.mean(figures) for figures in zip(*per_rank(answers, key), strict=True))


def roofline_of(answers: Sequence[Message]) -> Roofline:
    """What the ranks have found; without the products of all of them there is no rate."""
    products = per_rank(answers, "product")
    return Roofline(
        counted=tuple((samples, flops) for samples, flops in answers[0]["counted"]),
        counted_on=answers[0]["counted_on"],
        products=() if None in products else tuple(Product(**one) for one in products),
        absent=tuple(dict.fromkeys(reason for answer in answers for reason in answer["absent"])),
    )


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """The mean of those that are there; None if none is."""
    known = [value for value in values if value is not None]
    return arithmetic.mean(known) if known else None


def last_lines(text: str) -> list[str]:
    """The end of a traceback or a log, short enough for a terminal."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [line[:LONGEST_LINE] for line in lines[-MOST_LINES:]]
