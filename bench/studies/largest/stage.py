"""The largest micro-batch that fits: double until one does not, then halve the gap between.

A trial starts one backend alone in new processes, so that memory left by an earlier trial does not count. The
result is exact to `search_resolution`: the smallest that did not fit is at most 3 % larger. Since heaps
differ from start to start, a trial leaves a reserve, and the result must fit a second time.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.errors import LaunchFailed
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.plans import SEARCH, Launch, timed
from bench.measure.stages.stage import Run, Stage
from bench.results.arithmetic import search_resolution
from bench.results.records import BatchTrial

RESERVE = 0.1
"""Share of a memory limit that a timed launch may use and a trial may not.

Heaps fragment differently in each process: without a reserve, PyTorch came through a rehearsal on a small
BERT with 20 samples, and in one launch of six ran out of memory with 17.
"""

MOST_STEPS_DOWN = 3
"""How often a backend whose timed launch runs out of memory after all goes on with a smaller micro-batch."""

TYPICAL_TRIALS = 8  # how many a search takes, for the estimate of the time that is left

IN_THE_SEARCH = "in the search for the largest micro-batch: "
"""The beginning of the message of a backend that fails in the search."""


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """How a search ended."""

    micro_batch: int  # the largest that fitted, in samples per rank
    trials: Sequence[BatchTrial]  # all of them, in their order

    @property
    def gap(self) -> int | None:
        """Samples up to the smallest that did not fit; None if everything fitted."""
        too_large = [trial.micro_batch for trial in self.trials if not trial.fits]
        return min(too_large) - self.micro_batch if too_large else None

    def __str__(self) -> str:
        tried = " ".join(f"{trial.micro_batch}{'' if trial.fits else '✗'}" for trial in self.trials)
        gap = self.gap
        if gap is None:
            return f"largest micro-batch at least {self.micro_batch} (tried {tried}: everything fitted)"
        ended_early = gap > search_resolution(self.micro_batch)
        end = f", to within {gap}: measure.max_trials ended the search" if ended_early else ""
        return f"largest micro-batch {self.micro_batch} (tried {tried}{end})"


def find_largest(attempt: Callable[[int], BatchTrial], *, start: int, max_trials: int) -> SearchResult:
    """Find the largest micro-batch that fits, in at most `max_trials` trials.

    Doubles from `start` until one does not fit, or halves until one does, then bisects. No size is tried
    twice. `SearchResult` says whether the trials were used up before `search_resolution` was reached.
    LaunchFailed `oom` if nothing that was tried fits; what `attempt` raises ends the search.
    """
    trials: list[BatchTrial] = []
    fitted, too_large = 0, 0  # 0: none so far
    size = start
    while len(trials) < max_trials:
        trial = attempt(size)
        trials.append(trial)
        if trial.fits:
            fitted = size
        else:
            too_large = size
        if not fitted:
            if size == 1:
                break
            size //= 2
        elif not too_large:
            size *= 2
        elif too_large - fitted <= search_resolution(fitted):
            break
        else:
            size = (fitted + too_large) // 2
    if not fitted:
        tried = " ".join(str(trial.micro_batch) for trial in trials)
        raise LaunchFailed("oom", f"no micro-batch fits, tried {tried}; the last: {trials[-1].message}")
    return SearchResult(micro_batch=fitted, trials=tuple(trials))


def confirm(attempt: Callable[[int], BatchTrial], result: SearchResult) -> SearchResult:
    """Try the size that a search has found again; while it fails, take the next smaller one.

    Where everything had fitted the size is not at the edge, and stays. LaunchFailed `oom` if not even a
    micro-batch of 1 fits again.
    """
    if result.gap is None:
        return result
    size, trials = result.micro_batch, list(result.trials)
    while size:
        trials.append(attempt(size))
        if trials[-1].fits:
            return SearchResult(micro_batch=size, trials=tuple(trials))
        size -= search_resolution(size)
    raise LaunchFailed(
        "oom", f"a micro-batch of 1 fitted once and then did not; the last: {trials[-1].message}"
    )


class Search(Stage):
    """Finds the micro-batches that an earlier run has not found."""

    before_timing = True

    def __init__(self, shared: Run) -> None:
        super().__init__(shared)
        self._steps_down: Counter[str] = Counter()  # of each backend's micro-batch
        shared.when_failed.append(self._step_down)

    def _step_down(self, name: str, launch: Launch, failure: LaunchFailed) -> bool:
        """Begin anew with a smaller micro-batch after a lack of memory; whether it is so.

        All that was measured of the backend goes, since a number counts only for a size at which whole
        launches ran.
        """
        shared = self.shared
        micro_batch = shared.starter.micro_batches[name]
        smaller = micro_batch - search_resolution(micro_batch)
        if failure.status != "oom" or not smaller or self._steps_down[name] >= MOST_STEPS_DOWN:
            return False
        self._steps_down[name] += 1
        shared.ledger.forget(name)
        message = f"launch {launch.number}: {failure.message}"
        shared.use_micro_batch(
            name, smaller, BatchTrial(micro_batch=micro_batch, fits=False, message=message)
        )
        shared.bar.print_line(
            f"{name}, {shared.label(launch)}: micro-batch {micro_batch} did not last a whole launch "
            f"({failure.message}); measured anew with {smaller}"
        )
        shared.ledger.write()
        return True

    def expected(self) -> dict[str, int]:
        """The typical number of trials for each backend that is still to be searched."""
        return {"trial": TYPICAL_TRIALS * len(self._still_to_search(self.shared.names))}

    def run(self, names: Sequence[str]) -> list[str]:
        """Search for each of these backends, the reference first; the names of those that may be timed."""
        known = self.shared.starter.micro_batches
        trials = TYPICAL_TRIALS * len(self._still_to_search(names))
        self.shared.bar.expect({"trial": trials - self.expected()["trial"]})
        for name in names:
            with self.shared.groups(SEARCH) as groups, groups.closing_if_it_fails(name):
                if name in known:
                    self.shared.use_micro_batch(name, known[name])
                else:
                    result = self._search(name, groups)
                    self.shared.use_micro_batch(name, result.micro_batch, *result.trials)
        self.shared.ledger.write()
        return [name for name in names if name in known]

    def _still_to_search(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self.shared.starter.micro_batches]

    def _search(self, name: str, groups: RunningGroups) -> SearchResult:
        """Find a backend's largest micro-batch; LaunchFailed if it, or the reference, has none."""
        reference = self.shared.plan.reference
        if name != reference and reference not in self.shared.starter.micro_batches:
            raise LaunchFailed("skipped", f"{IN_THE_SEARCH}the reference backend {reference} failed")
        number = itertools.count(1)

        def attempt(micro_batch: int) -> BatchTrial:
            return self._try(name, next(number), micro_batch, groups)

        try:
            result = find_largest(
                attempt, start=self.shared.plan.config.micro_batch, max_trials=self.shared.measure.max_trials
            )
            result = confirm(attempt, result)
        except LaunchFailed as failure:
            message = f"{IN_THE_SEARCH}{failure.message}"
            raise LaunchFailed(failure.status, message, failure.details) from failure
        self.shared.bar.expect({"trial": min(0, len(result.trials) - TYPICAL_TRIALS)})
        self.shared.bar.print_line(f"{name}: {result}")
        return result

    def _try(self, name: str, number: int, micro_batch: int, groups: RunningGroups) -> BatchTrial:
        """Does this micro-batch fit? A fresh group of this backend alone rehearses a launch.

        It has less memory than a launch, since at the edge heaps differ from process to process; `_step_down`
        does the rest. LaunchFailed for another reason than memory, which does not answer the question.
        """
        starter = self.shared.starter
        like_the_first = starter.spec(name, timed(1))  # with dropout as published
        spec = dataclasses.replace(like_the_first, micro_batch=micro_batch)
        if spec.memory_limit_bytes is not None:
            limit = int(spec.memory_limit_bytes * (1 - RESERVE))
            spec = dataclasses.replace(spec, memory_limit_bytes=limit)
        message = ""
        with self.shared.bar.doing("trial", f"{name}: does micro-batch {micro_batch} fit?"):
            try:
                folder = self.shared.output.folder_of_trial(name, number)
                group = groups.add(name, starter.start_spec(spec, folder))
                group.connect()
                self.shared.timer.rehearse(group, self.shared.measure.rounds)
                group.end()
            except LaunchFailed as failure:
                if failure.status != "oom":
                    where = f"micro-batch {micro_batch}: {failure.message}"
                    raise LaunchFailed(failure.status, where, failure.details) from failure
                message = failure.message
            finally:
                groups.close_group(name)
        return BatchTrial(micro_batch=micro_batch, fits=not message, message=message)


STAGE = Search
