"""The search for each backend's largest micro-batch: every trial is a fresh start of that backend alone."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.errors import LaunchFailed
from bench.measure import batch_search_algorithm
from bench.measure.blocks import BlockTimer
from bench.measure.failures import Failures
from bench.measure.groups import GroupStarter
from bench.measure.launches import SEARCH, Launch, timed
from bench.measure.ledger import Ledger
from bench.measure.plans import Output, SearchPlan
from bench.measure.progress import ProgressBar
from bench.measure.running import RunningGroups
from bench.results.records import BatchTrial, LaunchStage

USUAL_TRIALS = 8
"""Of a search, for the estimate of the time that is left."""

IN_THE_SEARCH = "in the search for the largest micro-batch: "
"""How the message of a backend begins that fails there."""

LIKE_THE_FIRST = timed(1)
"""A trial is set up like the first timed launch, with dropout as published."""


@dataclass
class Search:
    """Finds micro-batches, and steps down from those that do not last a whole launch.

    Attributes:
        steps_down: how often each backend has gone on with a smaller micro-batch.
    """

    # how; None if all backends run at the configured micro-batch, so that nothing is searched for
    plan: SearchPlan | None
    known: Mapping[str, int]  # micro-batches by backend that an earlier run has found
    output: Output
    starter: GroupStarter
    timer: BlockTimer
    ledger: Ledger
    failures: Failures
    bar: ProgressBar

    def __post_init__(self) -> None:
        self._micro_batches: dict[str, int] = {} if self.plan is None else dict(self.known)
        self._trials: dict[str, tuple[BatchTrial, ...]] = {}
        self.steps_down: dict[str, int] = {}

    def still_to_search(self, names: Sequence[str]) -> list[str]:
        """Those of these backends whose largest micro-batch is wanted and not known yet."""
        if self.plan is None:
            return []
        return [name for name in names if name not in self._micro_batches]

    def run(self, names: Sequence[str]) -> list[str]:
        """Search for each of these backends, the reference first; the names of those that may be timed."""
        if self.plan is None:
            return list(names)
        for name in names:
            with (
                RunningGroups(SEARCH, self.starter, self.failures) as groups,
                groups.recording_failure(name),
            ):
                known = self._micro_batches.get(name)
                self._use(name, known or self._search(self.plan, name, groups))
        self.ledger.write()
        return [name for name in names if name in self._micro_batches]

    def step_down(self, name: str, launch: Launch, failure: LaunchFailed) -> bool:
        """Whether a backend whose timed launch ran out of memory goes on with a smaller micro-batch.

        All that was measured of it goes, since a number counts only for a size at which whole launches ran.
        """
        micro_batch = self._micro_batches.get(name)
        if failure.status != "oom" or launch.stage is not LaunchStage.TIMED or micro_batch is None:
            return False
        smaller = batch_search_algorithm.step_down(micro_batch)
        if not smaller or self.steps_down.get(name, 0) >= batch_search_algorithm.MOST_STEPS_DOWN:
            return False
        assert self.plan is not None, "only a search finds micro-batches"
        self.steps_down[name] = self.steps_down.get(name, 0) + 1
        self.ledger.forget(name)
        message = f"launch {launch.number}: {failure.message}"
        self._add_trials(name, BatchTrial(micro_batch=micro_batch, fits=False, message=message))
        self._use(name, smaller)
        self.bar.print_line(
            f"{name}, {launch.label(self.plan.launches)}: micro-batch {micro_batch} did not last a whole "
            f"launch ({failure.message}); measured anew with {smaller}"
        )
        self.ledger.write()
        return True

    def _use(self, name: str, micro_batch: int) -> None:
        """Time this backend with so many samples per rank."""
        self._micro_batches[name] = micro_batch
        self.starter.use_micro_batch(name, micro_batch)
        self.ledger.set_workload_for_later_records(name, micro_batch=micro_batch)

    def _add_trials(self, name: str, *trials: BatchTrial) -> None:
        self._trials[name] = (*self._trials.get(name, ()), *trials)
        self.ledger.set_for_later_records(name, trials=self._trials[name])

    def _search(self, plan: SearchPlan, name: str, groups: RunningGroups) -> int:
        """Find one backend's largest micro-batch; all trials go on record.

        Raises:
            LaunchFailed: nothing fits, a trial failed for any other reason than memory, or the reference's
                search failed.
        """
        if name != plan.reference and plan.reference not in self._micro_batches:
            raise LaunchFailed("skipped", f"{IN_THE_SEARCH}the reference backend {plan.reference} failed")
        number = itertools.count(1)

        def attempt(micro_batch: int) -> BatchTrial:
            return self._try(plan, name, next(number), micro_batch, groups)

        try:
            result = batch_search_algorithm.search(attempt, start=plan.start, most_trials=plan.most_trials)
            result = batch_search_algorithm.confirm(attempt, result)
        except LaunchFailed as failure:
            message = f"{IN_THE_SEARCH}{failure.message}"
            raise LaunchFailed(failure.status, message, failure.details) from failure
        self.bar.expect({"trial": min(0, len(result.trials) - USUAL_TRIALS)})
        self._add_trials(name, *result.trials)
        self.bar.print_line(f"{name}: {result}")
        return result.micro_batch

    def _try(
        self, plan: SearchPlan, name: str, number: int, micro_batch: int, groups: RunningGroups
    ) -> BatchTrial:
        """Does this micro-batch fit? A fresh group of this backend alone rehearses a launch.

        It has less memory than a launch, since at the edge heaps differ from process to process. `step_down`
        does the rest.

        Raises:
            LaunchFailed: for any other reason than memory, which is no answer.
        """
        spec = dataclasses.replace(self.starter.spec(name, LIKE_THE_FIRST), micro_batch=micro_batch)
        if spec.memory_limit_bytes is not None:
            limit = int(spec.memory_limit_bytes * (1 - batch_search_algorithm.RESERVE))
            spec = dataclasses.replace(spec, memory_limit_bytes=limit)
        message = ""
        with self.bar.doing("trial", f"{name}: does micro-batch {micro_batch} fit?"):
            try:
                folder = self.output.folder_of_trial(name, number)
                group = groups.add(name, self.starter.start_spec(spec, folder))
                group.connect()
                self.timer.rehearse(group, plan.steps)
                group.end()
            except OSError as error:  # no process, no socket or no room for the temporary folder
                raise LaunchFailed("crashed", f"{type(error).__name__}: {error}") from error
            except LaunchFailed as failure:
                if failure.status != "oom":
                    where = f"micro-batch {micro_batch}: {failure.message}"
                    raise LaunchFailed(failure.status, where, failure.details) from failure
                message = failure.message
            finally:
                groups.close_group(name)
        return BatchTrial(micro_batch=micro_batch, fits=not message, message=message)
