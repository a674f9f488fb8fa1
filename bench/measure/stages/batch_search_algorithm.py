"""The largest micro-batch that fits: double until one does not, then halve the gap between.

A trial is a fresh start of one backend alone, so that nothing an earlier one left in memory counts. The
result is exact to `search_resolution`: the smallest that did not fit is at most 3 % larger. Since heaps
differ from start to start, a trial leaves a reserve, and what was found must fit once more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.errors import LaunchFailed
from bench.measure.groups.micro_batches import next_smaller
from bench.results.arithmetic import search_resolution
from bench.results.records import BatchTrial

RESERVE = 0.1
"""Share of a memory limit that a trial does without and a timed launch has.

Heaps fragment differently in each process: without a reserve, PyTorch came through a rehearsal on a small
BERT with 20 samples, and in one launch of six ran out of memory with 17.
"""


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
        end = (
            f", to within {gap}: measure.most_trials={len(self.trials)} ended the search"
            if ended_early
            else ""
        )
        return f"largest micro-batch {self.micro_batch} (tried {tried}{end})"


def search(attempt: Callable[[int], BatchTrial], *, start: int, most_trials: int) -> SearchResult:
    """Find the largest micro-batch that fits, in at most `most_trials` trials.

    Doubles from `start` until one does not fit, or halves until one does, then bisects. No size is tried
    twice. The trials may be used up before `search_resolution` is reached; `SearchResult` says so.

    Args:
        attempt: tries a micro-batch; what it raises ends the search.
        start: where it begins, at least 1.
        most_trials: at least 1.

    Raises:
        LaunchFailed: status `oom`, if nothing that was tried fits.
    """
    trials: list[BatchTrial] = []
    fitted, too_large = 0, 0  # 0: none so far
    size = start
    while len(trials) < most_trials:
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

    Where everything had fitted the size is not at the edge, and stays.

    Raises:
        LaunchFailed: status `oom`, if not even a micro-batch of 1 fits again.
    """
    if result.gap is None:
        return result
    size, trials = result.micro_batch, list(result.trials)
    while size:
        trials.append(attempt(size))
        if trials[-1].fits:
            return SearchResult(micro_batch=size, trials=tuple(trials))
        size = next_smaller(size)
    raise LaunchFailed(
        "oom", f"a micro-batch of 1 fitted once and then did not; the last: {trials[-1].message}"
    )
