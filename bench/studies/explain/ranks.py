"""What a rank does: it takes steps under a profiler."""

from weakref import WeakKeyDictionary

from bench.studies.explain.messages import RoundProfiled, StepsProfiled
from bench.studies.explain.step_profile import StepProfiler
from bench.worker.rank.rank import Rank

_PROFILERS: "WeakKeyDictionary[Rank, StepProfiler]" = WeakKeyDictionary()


def profile(rank: Rank, steps: int, counted: bool, replaces: bool) -> RoundProfiled:
    """Take steps under a profiler, which goes on until `finish_profile`."""
    if rank not in _PROFILERS:
        processes = rank.spec.profiled_groups * max(1, len(rank.spec.cores))
        _PROFILERS[rank] = StepProfiler(rank.training, rank.meter, processes)
    rank.training.barrier()
    return _PROFILERS[rank].profile(steps, counted=counted, replaces=replaces)


def finish_profile(rank: Rank) -> StepsProfiled:
    """What the counted steps of every round were spent on."""
    return StepsProfiled(rounds=_PROFILERS.pop(rank).finish())
