"""Checks an advice: trains every configuration within the limit, whatever was predicted of it."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bench.advise.measured import Outcome
from bench.advise.predict import Candidate
from bench.advise.search import Advice, Run, Train
from bench.analysis.intervals import Speedup


@dataclass(frozen=True, kw_only=True)
class Check:
    """What all configurations reach within the limit, and how near the advised one comes to the best.

    Attributes:
        outcomes: of all, each trained in one launch; those that were timed first, the fastest of them first.
        share: throughput of the advised one over that of the fastest, from one launch of each; None if
            either has none.
        in_full: the same from a full comparison of the two, where the fastest was not measured in full for
            the advice; else None.
    """

    outcomes: Sequence[Outcome]
    share: float | None
    in_full: Speedup | None


def check_advice(
    advice: Advice, candidates: Sequence[Candidate], *, micro_batch: int, train_once: Train, measure: Train
) -> Check:
    """Train every candidate in the fewest parts in which it fits, and compare the advised one with the best.

    Args:
        advice: with what was measured in full.
        candidates: all that it chose from.
        micro_batch: which parts must divide.
        train_once: trains some of them in one launch.
        measure: measures some of them in full.
    """
    run = Run([dataclasses.replace(one, parts=1) for one in candidates], train_once, micro_batch)
    run.until_nothing_is_open(lambda alive: alive)
    timed = run.timed()
    advised = next((one for one in advice.outcomes if one.samples_per_s is not None), None)
    share, in_full = None, None
    if advised is not None and timed:
        fastest, name = timed[0], advised.candidate.backend
        there = run.outcomes.get(name)
        if there is not None and there.samples_per_s and fastest.samples_per_s:
            share = there.samples_per_s / fastest.samples_per_s
        known = {(one.candidate.backend, one.candidate.parts) for one in advice.outcomes}
        if (fastest.candidate.backend, fastest.candidate.parts) not in known:
            both = measure([fastest.candidate, advised.candidate])
            if {name, fastest.candidate.backend} <= {*both}:
                in_full = both[name].against(both[fastest.candidate.backend])
    return Check(outcomes=[*timed, *run.failed()], share=share, in_full=in_full)
