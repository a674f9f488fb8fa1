"""The kinds of work that a step consists of, which operator does which, and the rows of the table."""

import fnmatch
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOST = "host"  # in place of an operator: Python and the framework between the operators

WAITING = "waiting for other ranks"
"""In place of an operator: time without one on the main thread, during which ranks communicated."""

KINDS = (
    "matrix products",
    "softmax",
    "normalisation",
    "elementwise",
    "embedding",
    "loss",
    "dropout",
    "copies",
    "optimizer",
    "communication",
    "host",
    "other",
)
"""The kinds of work, in the order in which tables and figures show them. `other`: of no known kind."""

TABLE = Path(__file__).with_name("operator_kinds.yaml")


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One operator's time in a rank's profiled steps of a round."""

    library: str  # whose operator it is, `torch` or `onnxruntime`
    name: str  # as that library calls it; or `HOST`, or `WAITING`
    part: str  # `optimizer` if it ran within the optimizer's step; else empty
    calls: int  # in all profiled steps of a round
    seconds: float  # in the same steps, without what it called


@dataclass(frozen=True, kw_only=True)
class ProfiledRound:
    """The profiled steps of one rank in one round."""

    steps: int  # how many
    seconds: float  # of all of them together
    operators: Sequence[Operator]  # what they were spent on; the seconds add up to `seconds`


@functools.cache
def _patterns() -> Mapping[str, Sequence[tuple[str, str]]]:
    """By library, patterns of operators' names, each with its kind; the first that fits counts."""
    import yaml  # type: ignore[import-untyped]  # ranks need no table

    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return {
        library: [(pattern, kind) for kind, patterns in kinds.items() for pattern in patterns]
        for library, kinds in table.items()
    }


def kind_of(operator: Operator) -> str:
    """The kind of work that an operator does, by `operator_kinds.yaml`."""
    if operator.part == "optimizer":
        return "optimizer"
    if operator.name == HOST:
        return "host"
    if operator.name == WAITING:
        return "communication"
    for pattern, kind in _patterns().get(operator.library, ()):
        if fnmatch.fnmatchcase(operator.name, pattern):
            return kind
    return "other"


def rows_of_profile(
    ranks: Sequence[Sequence[ProfiledRound]], *, described: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a row for each operator in each round: the mean over the ranks, per step; behind `described`."""
    rows: list[dict[str, Any]] = []
    for number, of_ranks in enumerate(zip(*ranks, strict=True), start=1):
        steps = of_ranks[0].steps
        share = 1 / (len(of_ranks) * steps)
        merged: dict[tuple[str, str, str], list[float]] = {}
        for operator in (operator for rank in of_ranks for operator in rank.operators):
            sums = merged.setdefault((operator.library, operator.part, operator.name), [0.0, 0.0])
            sums[0] += operator.calls
            sums[1] += operator.seconds
        rows += [
            {
                **described,
                "round": number,
                "steps": steps,
                "profiled_step_s": sum(rank.seconds for rank in of_ranks) * share,
                "kind": kind_of(Operator(library=library, part=part, name=name, calls=0, seconds=0.0)),
                "library": library,
                "part": part,
                "operator": name,
                "calls_per_step": calls * share,
                "seconds_per_step": spent * share,
            }
            for (library, part, name), (calls, spent) in sorted(merged.items(), key=lambda item: -item[1][1])
        ]
    return rows
