"""What makes a backend faster or slower: the seconds of its profiled step, by kind of work.

Profiled and timed seconds are never mixed: the difference of two profiled steps explains the difference of
the two timed ones only as far as both agree, and what they do not agree on is a figure of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from bench.analysis.summary import BackendSummary
from bench.config.schema import global_batch
from bench.results.operator_kinds import KINDS

UNNAMED = ("host", "other")
"""Kinds that do not say what was computed."""

UNKNOWN_LIMIT = 0.05
"""Share of a step in operators of no known kind above which the report says so."""


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """Where one backend's step went.

    Attributes:
        backend: its name.
        kinds: seconds per profiled step, by kind of work, in the order of `KINDS`; they add up to it.
        profiled_s: seconds of a profiled step.
        timed_s: seconds of a timed step; None if it has no valid blocks.
        unknown: operators of no known kind with their seconds, the longest first.
    """

    backend: str
    kinds: Mapping[str, float]
    profiled_s: float
    timed_s: float | None
    unknown: Sequence[tuple[str, float]]

    @property
    def covered(self) -> float:
        """The share of the profiled step that went into a named kind of work."""
        return 1 - sum(self.kinds.get(kind, 0.0) for kind in UNNAMED) / self.profiled_s

    @property
    def cost(self) -> float | None:
        """Profiled step over timed step: above 1, the profiler cost time."""
        return None if self.timed_s is None else self.profiled_s / self.timed_s

    @property
    def has_unknown(self) -> bool:
        """Whether operators of no known kind took more than `UNKNOWN_LIMIT` of the step."""
        return self.kinds.get("other", 0.0) > UNKNOWN_LIMIT * self.profiled_s


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Why a backend's step takes longer or shorter than the reference's.

    Attributes:
        backend: its name.
        timed_s: seconds that its timed step takes more than the reference's.
        kinds: the same of the profiled steps, by kind of work, the largest first.
        remainder_s: what of `timed_s` the kinds do not add up to.
    """

    backend: str
    timed_s: float
    kinds: Sequence[tuple[str, float]]
    remainder_s: float

    @property
    def is_doubtful(self) -> bool:
        """Whether no kind of work differs by more than is left over: then each of them may be drift."""
        return abs(self.remainder_s) > max((abs(seconds) for _, seconds in self.kinds), default=0.0)


def break_down(
    table: pd.DataFrame, rows: pd.DataFrame, summaries: Sequence[BackendSummary]
) -> list[Breakdown]:
    """Every backend's breakdown, in the order of the summaries.

    Args:
        table: as `bench.results.breakdown.read` returns it.
        rows: the comparison's results; what was profiled in another configuration or environment is left out.
        summaries: of these rows.
    """
    breakdowns = []
    for summary in summaries:
        mine = table[table["backend"] == summary.backend]
        measured = rows[rows["backend"] == summary.backend]
        hashes = ["config_hash", "environment_hash"]
        if mine.empty or not set(mine[hashes].itertuples(index=False, name=None)) <= set(
            measured[hashes].itertuples(index=False, name=None)
        ):
            continue
        spent = mine.groupby("kind")["seconds_per_step"].sum()
        unknown = mine[mine["kind"] == "other"].sort_values("seconds_per_step", ascending=False)
        breakdowns.append(
            Breakdown(
                backend=summary.backend,
                kinds={kind: float(spent[kind]) for kind in KINDS if kind in spent},
                profiled_s=float(mine["profiled_step_s"].iloc[0]),
                timed_s=timed_step_s(summary, measured),
                unknown=list(zip(unknown["operator"], unknown["seconds_per_step"], strict=True)),
            )
        )
    return breakdowns


def timed_step_s(summary: BackendSummary, rows: pd.DataFrame) -> float | None:
    """Seconds of a timed step: its samples over the throughput that the table shows."""
    if summary.samples_per_s is None or summary.micro_batch is None:
        return None
    accumulated, ranks = int(rows["grad_accum"].iloc[0]), int(rows["world_size"].iloc[0])
    return global_batch(summary.micro_batch, accumulated, ranks) / summary.samples_per_s


def explain_difference(one: Breakdown, reference: Breakdown) -> Difference | None:
    """What the difference of two timed steps consists of; None if one of them was not timed."""
    if one.timed_s is None or reference.timed_s is None:
        return None
    kinds = [
        (kind, one.kinds.get(kind, 0.0) - reference.kinds.get(kind, 0.0))
        for kind in KINDS
        if kind in one.kinds or kind in reference.kinds
    ]
    timed = one.timed_s - reference.timed_s
    return Difference(
        backend=one.backend,
        timed_s=timed,
        kinds=sorted(kinds, key=lambda kind: -abs(kind[1])),
        remainder_s=timed - sum(seconds for _, seconds in kinds),
    )
