"""The search for each backend's largest micro-batch: every trial is a fresh start of that backend alone."""

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from bench.errors import LaunchFailed
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.launches import SEARCH, timed
from bench.measure.plan.plans import SearchPlan
from bench.measure.stages import batch_search_algorithm
from bench.measure.stages.stage import Run, Stage
from bench.results.records import BatchTrial

USUAL_TRIALS = 8
"""How many a search takes, for the estimate of the time that is left."""

IN_THE_SEARCH = "in the search for the largest micro-batch: "
"""How the message of a backend begins that fails there."""

LIKE_THE_FIRST = timed(1)
"""A trial is set up like the first timed launch, with dropout as published."""


@dataclass
class Search(Stage):
    """Finds the micro-batches that an earlier run has not found."""

    shared: Run
    plan: SearchPlan

    def expected(self) -> dict[str, int]:
        """About as many trials as usual."""
        return {"trial": USUAL_TRIALS * len(self._still_to_search(self.shared.names))}

    def run(self, names: Sequence[str]) -> list[str]:
        """Search for each of these backends, the reference first; the names of those that may be timed."""
        micro_batches = self.shared.micro_batches
        trials = USUAL_TRIALS * len(self._still_to_search(names))
        self.shared.bar.expect({"trial": trials - self.expected()["trial"]})
        for name in names:
            with self.shared.groups(SEARCH) as groups, groups.closing_if_it_fails(name):
                micro_batches.use(name, micro_batches.known.get(name) or self._search(name, groups))
        self.shared.ledger.write()
        return [name for name in names if name in micro_batches.known]

    def _still_to_search(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self.shared.micro_batches.known]

    def _search(self, name: str, groups: RunningGroups) -> int:
        """Find one backend's largest micro-batch; all trials go on record.

        Raises:
            LaunchFailed: nothing fits, a trial failed for any other reason than memory, or the reference's
                search failed.
        """
        reference, plan = self.shared.plan.reference, self.plan
        if name != reference and reference not in self.shared.micro_batches.known:
            raise LaunchFailed("skipped", f"{IN_THE_SEARCH}the reference backend {reference} failed")
        number = itertools.count(1)

        def attempt(micro_batch: int) -> BatchTrial:
            return self._try(name, next(number), micro_batch, groups)

        try:
            result = batch_search_algorithm.search(attempt, start=plan.start, most_trials=plan.most_trials)
            result = batch_search_algorithm.confirm(attempt, result)
        except LaunchFailed as failure:
            message = f"{IN_THE_SEARCH}{failure.message}"
            raise LaunchFailed(failure.status, message, failure.details) from failure
        self.shared.bar.expect({"trial": min(0, len(result.trials) - USUAL_TRIALS)})
        self.shared.micro_batches.add_trials(name, *result.trials)
        self.shared.bar.print_line(f"{name}: {result}")
        return result.micro_batch

    def _try(self, name: str, number: int, micro_batch: int, groups: RunningGroups) -> BatchTrial:
        """Does this micro-batch fit? A fresh group of this backend alone rehearses a launch.

        It has less memory than a launch, since at the edge heaps differ from process to process.
        `MicroBatches.step_down` does the rest.

        Raises:
            LaunchFailed: for any other reason than memory, which is no answer.
        """
        starter = self.shared.starter
        spec = dataclasses.replace(starter.spec(name, LIKE_THE_FIRST), micro_batch=micro_batch)
        if spec.memory_limit_bytes is not None:
            limit = int(spec.memory_limit_bytes * (1 - batch_search_algorithm.RESERVE))
            spec = dataclasses.replace(spec, memory_limit_bytes=limit)
        message = ""
        with self.shared.bar.doing("trial", f"{name}: does micro-batch {micro_batch} fit?"):
            try:
                folder = self.shared.output.folder_of_trial(name, number)
                group = groups.add(name, starter.start_spec(spec, folder))
                group.connect()
                self.shared.timer.rehearse(group, self.plan.steps)
                group.end()
            except LaunchFailed as failure:
                if failure.status != "oom":
                    where = f"micro-batch {micro_batch}: {failure.message}"
                    raise LaunchFailed(failure.status, where, failure.details) from failure
                message = failure.message
            finally:
                groups.close_group(name)
        return BatchTrial(micro_batch=micro_batch, fits=not message, message=message)
