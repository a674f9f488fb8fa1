"""Checks an advice: trains every configuration within the limit, whatever was predicted of it."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bench.advise.measured import Outcome
from bench.advise.plain import divisors
from bench.advise.predict import Candidate
from bench.advise.search import Advice, Run, Train
from bench.statistics.intervals import Speedup


@dataclass(frozen=True, kw_only=True)
class Check:
    """What all configurations reach within the limit, and how near the advised one comes to the best."""

    # of all, each trained in one launch; those that were timed first, the fastest of them first
    outcomes: Sequence[Outcome]
    untrained: Sequence[Candidate]  # those that had no turn
    is_fastest: bool  # the advised one is the fastest of them
    # else, its throughput over that of the fastest, both measured in full; None if one is not
    ratio: Speedup | None


def check_advice(
    advice: Advice, candidates: Sequence[Candidate], *, micro_batch: int, train_once: Train, measure: Train
) -> Check:
    """Train every candidate in the fewest parts in which it fits, and compare the advised one with the best.

    Launches differ, so that the two are compared in full.
    """
    most = 2 * len(divisors(micro_batch))
    run = Run([dataclasses.replace(one, parts=1) for one in candidates], train_once, micro_batch, most)
    run.until_nothing_is_open(lambda alive: alive)
    timed = run.timed()
    advised = next((one for one in advice.outcomes if one.samples_per_s is not None), None)
    is_fastest, ratio = False, None
    if advised is not None and timed:
        fastest = timed[0].candidate
        is_fastest = _key(fastest) == _key(advised.candidate)
        if not is_fastest:
            in_full = {_key(one.candidate): one for one in advice.outcomes}
            best = in_full.get(_key(fastest)) or measure([fastest]).get(fastest.backend)
            ratio = advised.against(best) if best is not None and best.samples_per_s is not None else None
    return Check(
        outcomes=[*timed, *run.failed()],
        untrained=[one for name, one in run.alive.items() if name not in run.outcomes],
        is_fastest=is_fastest,
        ratio=ratio,
    )


def _key(candidate: Candidate) -> tuple[str, int]:
    return candidate.backend, candidate.parts
