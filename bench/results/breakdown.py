"""Where a step's time went, by operator and by kind of work: the rows of `BREAKDOWN`."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.results.operator_kinds import Operator, ProfiledRound, kind_of


def rows_of_profile(
    ranks: Sequence[Sequence[ProfiledRound]], *, described: Mapping[str, str]
) -> list[dict[str, Any]]:
    """A row for each operator in each round: the mean over the ranks, per step.

    Args:
        ranks: each rank's rounds.
        described: the columns up to `stack`.
    """
    return [
        {**described, "round": number, **row}
        for number, of_ranks in enumerate(zip(*ranks, strict=True), start=1)
        for row in _rows_of_round(of_ranks)
    ]


def _rows_of_round(ranks: Sequence[ProfiledRound]) -> list[dict[str, Any]]:
    steps = ranks[0].steps
    share = 1 / (len(ranks) * steps)
    merged: dict[tuple[str, str, str], list[float]] = {}
    for operator in (operator for rank in ranks for operator in rank.operators):
        sums = merged.setdefault((operator.library, operator.part, operator.name), [0.0, 0.0])
        sums[0] += operator.calls
        sums[1] += operator.seconds
    return [
        {
            "steps": steps,
            "profiled_step_s": sum(rank.seconds for rank in ranks) * share,
            "kind": kind_of(Operator(library=library, part=part, name=name, calls=0, seconds=0.0)),
            "library": library,
            "part": part,
            "operator": name,
            "calls_per_step": calls * share,
            "seconds_per_step": spent * share,
        }
        for (library, part, name), (calls, spent) in sorted(merged.items(), key=lambda item: -item[1][1])
    ]
