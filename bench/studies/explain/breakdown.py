"""What makes a backend faster or slower: the seconds of its profiled step, by kind of work.

Profiled and timed seconds are never mixed: the difference of two profiled steps explains the difference of
the two timed ones only as far as both agree, and their disagreement is a separate figure.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.config.schema import global_batch
from bench.report.content.collection import ReportedComparison
from bench.statistics.intervals import Amount, Floats, Speedup, mean_with_interval
from bench.studies.explain.operator_kinds import KINDS
from bench.studies.explain.table import TABLE

UNNAMED = ("host", "other")  # kinds that do not say what was computed

DISTORTED = 1.25
"""If a profiled step takes 1.25 times as long as a timed one, or the other way round, the two are not alike:
kinds of work then take other shares than in a timed step. Besides the profiler's cost the cause is mostly
memory that is new to the process."""


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """Where one backend's step went."""

    backend: str
    # seconds per profiled step by kind of work, in the order of `KINDS`; of shape (rounds,) each
    rounds: Mapping[str, Floats]
    timed_s: float | None  # seconds of a timed step; None if it has no valid blocks
    samples: int | None  # of a step, all ranks
    speedup: Speedup | None  # of its timed steps over the reference's; None for the reference itself

    @property
    def kinds(self) -> dict[str, float]:
        """Seconds per profiled step, by kind of work; they add up to it."""
        return {kind: float(seconds.mean()) for kind, seconds in self.rounds.items()}

    @property
    def profiled_s(self) -> float:
        """Seconds of a profiled step."""
        return sum(self.kinds.values())

    @property
    def covered(self) -> float:
        """The share of the profiled step that went into a named kind of work."""
        return 1 - sum(self.kinds.get(kind, 0.0) for kind in UNNAMED) / self.profiled_s

    @property
    def cost(self) -> float | None:
        """Profiled step over timed step: above 1, the profiler cost time."""
        return None if self.timed_s is None else self.profiled_s / self.timed_s

    @property
    def is_distorted(self) -> bool:
        """Whether the profiled step is too far from the timed one to explain it."""
        return self.cost is not None and not 1 / DISTORTED <= self.cost <= DISTORTED


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Why a backend's step takes longer or shorter than the reference's."""

    timed: Amount  # what its timed step takes more than the reference's
    # what its profiled step takes more, by kind of work; of shape (rounds,) each
    rounds: Mapping[str, Floats]
    distorted: Sequence[str] = ()  # the backends whose profiled step is too far from the timed one

    def of(self, kinds: Collection[str], *, among: int = 1) -> Amount:
        """What these kinds take more, paired by round; `among` such intervals hold together with 95 %."""
        return mean_with_interval(sum((self.rounds[kind] for kind in kinds), np.zeros(1)), among=among)

    @property
    def kinds(self) -> list[tuple[str, Amount]]:
        """What every kind of work takes more, the largest first."""
        amounts = [(kind, self.of([kind], among=len(self.rounds))) for kind in self.rounds]
        return sorted(amounts, key=lambda amount: -abs(amount[1].value))

    @property
    def remainder(self) -> Amount:
        """What of `timed` the kinds do not add up to.

        Timed and profiled steps are of different launches, so that their errors add up in squares.
        """
        total = self.of(self.rounds)
        halves = self.timed.half, total.half
        half = None if halves[0] is None or halves[1] is None else math.hypot(halves[0], halves[1])
        return Amount(value=self.timed.value - total.value, half=half)

    @property
    def leaves_most(self) -> bool:
        """Whether more is left over for sure than any kind of work differs by."""
        largest = max((abs(amount.value) for _, amount in self.kinds), default=0.0)
        return self.remainder.is_clear and abs(self.remainder.value) > largest


def break_down(comparison: ReportedComparison) -> list[Breakdown]:
    """The breakdown of every backend that was profiled, the reference first.

    What was profiled in another configuration or environment than was timed is left out.
    """
    table = comparison.beside.get(TABLE.kind)
    if table is None:
        return []
    hashes = ["config_hash", "environment_hash"]
    rows = comparison.rows[["backend", "world_size", *hashes]]  # rows of a hundred columns take long
    breakdowns = []
    for summary in comparison.summaries:
        profiled, measured = (each[each["backend"] == summary.backend] for each in (table, rows))
        known = set(measured[hashes].itertuples(index=False, name=None))
        if profiled.empty or not set(profiled[hashes].itertuples(index=False, name=None)) <= known:
            continue
        # a loop, in a tenth of the time of pandas' groups of a dozen rows each
        by_round: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
        cells = (profiled[column].tolist() for column in ("round", "kind", "seconds_per_step"))
        for number, kind, seconds in zip(*cells, strict=True):
            by_round[kind][number] += seconds
        numbers = sorted(set(profiled["round"]))
        timed_s = samples = None
        if summary.samples_per_s is not None and summary.micro_batch is not None:
            ranks = int(measured["world_size"].iloc[0])
            samples = global_batch(summary.micro_batch, int(summary.grad_accum), ranks)
            timed_s = samples / summary.samples_per_s
        breakdowns.append(
            Breakdown(
                backend=summary.backend,
                rounds={
                    kind: np.array([by_round[kind][number] for number in numbers])
                    for kind in KINDS
                    if kind in by_round
                },
                timed_s=timed_s,
                samples=samples,
                speedup=summary.speedup,
            )
        )
    return breakdowns


def explain_difference(breakdown: Breakdown, reference: Breakdown) -> Difference | None:
    """What the difference of two timed steps consists of.

    Rounds are paired by their number: in a round, backends take turns; of backends that were profiled apart
    one may have more. None if one of them was not timed, or steps are of different batches, as with
    `measure.batch=max`.
    """
    if breakdown.timed_s is None or reference.timed_s is None or breakdown.samples != reference.samples:
        return None
    none = np.zeros(1)
    common = min(len(seconds) for side in (breakdown, reference) for seconds in side.rounds.values())
    rounds = {
        kind: breakdown.rounds.get(kind, none)[:common] - reference.rounds.get(kind, none)[:common]
        for kind in KINDS
        if kind in breakdown.rounds or kind in reference.rounds
    }
    half = None
    if (speedup := breakdown.speedup) and speedup.low and speedup.high:
        half = reference.timed_s * (1 / speedup.low - 1 / speedup.high) / 2
    return Difference(
        timed=Amount(value=breakdown.timed_s - reference.timed_s, half=half),
        rounds=rounds,
        distorted=[side.backend for side in (reference, breakdown) if side.is_distorted],
    )
