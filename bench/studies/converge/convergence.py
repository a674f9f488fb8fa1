"""Whether a faster backend reaches a target sooner, and ends at the same loss: pure functions of losses.

A launch is a seed. Backends are compared within it, since they see the same batches in the same order, and
take turns on the same machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from bench.statistics.intervals import Amount, Floats, Speedup, mean_with_interval, speedup_of_launches

TWO_ONE_SIDED = 0.90
"""Two one-sided tests at 5 % find equivalence if and only if the 90 % interval lies within the margin.

Source: D. J. Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987), 657-680.
"""

EQUIVALENT, DIFFERENT, OPEN = "equivalent", "different", "open"


@dataclass(frozen=True, kw_only=True)
class Course:
    """One backend in one launch: what it had come to at each evaluation, arrays of shape (evaluations,)."""

    launch: int
    steps: Floats  # trained so far
    seconds: Floats  # of the timed blocks so far
    with_start: Floats  # `seconds` with set-up, first step and warm-up
    losses: Floats  # on held-out data
    disturbed: int  # how many of the blocks others disturbed

    @property
    def counts(self) -> bool:
        """Whether its seconds may be used: as for speed-ups, unless more than a third was disturbed."""
        return 3 * self.disturbed <= len(self.steps) - 1

    def reaches(self, target: float) -> int | None:
        """Number of the first evaluation at or below the target; None if there is none."""
        below = np.flatnonzero(self.losses <= target)
        return int(below[0]) if len(below) else None


@dataclass(frozen=True, kw_only=True)
class BackendConvergence:
    """One backend; a figure is None where it is not available or must not be printed."""

    backend: str
    status: str  # `ok`, or why it is not compared
    courses: Sequence[Course]  # of the launches that count
    left_out: int  # how many launches do not, since others disturbed them
    reached: int  # how many came to the target
    # until the target, mean over launches; None unless all came there, like the next two
    seconds: Amount | None
    with_start: Amount | None  # `seconds` with set-up, first step and warm-up
    steps: Amount | None  # steps until the target
    final_loss: Amount | None  # at the last evaluation, mean over launches
    # the reference's seconds over its own (above 1: sooner), paired by launch; None for the reference, and
    # unless both came to the target in all launches, like the next two
    sooner: Speedup | None = None
    sooner_with_start: Speedup | None = None  # `sooner` with set-up, first step and warm-up
    fewer_steps: Speedup | None = None  # the reference's steps over its own
    difference: Amount | None = None  # of the final loss from the reference's, paired by launch
    verdict: str | None = None  # `equivalent`, `different` or `open`, of that difference

    @property
    def launches(self) -> int:
        """How many count."""
        return len(self.courses)


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """All backends of a comparison."""

    reference: str  # the backend that the others are compared with
    target: float  # the held-out loss to reach
    margin: float  # within which final losses are equivalent
    backends: Sequence[BackendConvergence]  # the reference first

    @property
    def others(self) -> list[BackendConvergence]:
        """All but the reference."""
        return [backend for backend in self.backends if backend.backend != self.reference]


def find_convergence(followed: pd.DataFrame, reference: str, statuses: Mapping[str, str]) -> Convergence:
    """Every backend, from at least one row of `TABLE`; those whose status is `ok` are compared."""
    # A launch that was interrupted has a last loss, which is not its final one.
    evaluations = followed.groupby(["backend", "launch"])["evaluation"].transform("size")
    whole = followed[evaluations == evaluations.max()]
    target, margin = float(followed["target_loss"].iloc[0]), float(followed["margin_loss"].iloc[0])
    names = sorted(dict.fromkeys(followed["backend"]), key=lambda name: name != reference)
    alone = {
        name: _alone(name, whole[whole["backend"] == name], target, statuses.get(name, "skipped"))
        for name in names
    }
    base = alone.get(reference)
    backends = [_compared(backend, base, target, margin) if base else backend for backend in alone.values()]
    return Convergence(reference=reference, target=target, margin=margin, backends=backends)


def judge_difference(differences: Floats, margin: float) -> str:
    """`equivalent`, `different` or `open`.

    Equivalent if two one-sided t tests at 5 % say that the mean of these independent values, of shape
    (launches,), lies within ± `margin`; else different if the 95 % interval excludes 0.
    """
    within = mean_with_interval(differences, confidence=TWO_ONE_SIDED)
    if within.half is None:
        return OPEN
    if abs(within.value) + within.half < margin:
        return EQUIVALENT
    return DIFFERENT if mean_with_interval(differences).is_clear else OPEN


def _alone(name: str, followed: pd.DataFrame, target: float, status: str) -> BackendConvergence:
    """A backend's figures without others; `followed` has its launches that were not interrupted."""
    courses = [
        Course(
            launch=int(str(launch)),
            steps=rows["steps"].to_numpy(float),
            seconds=rows["seconds"].to_numpy(float),
            with_start=rows["seconds_with_start"].to_numpy(float),
            losses=rows["held_out_loss"].to_numpy(float),
            disturbed=int(rows["disturbed"].sum()),
        )
        for launch, rows in followed.sort_values(["launch", "evaluation"]).groupby("launch")
    ]

    counted = [course for course in courses if course.counts]
    reached = [end for course in counted if (end := course.reaches(target)) is not None]

    def at_target(curves: Sequence[Floats]) -> Amount | None:
        if not counted or len(reached) < len(counted):
            return None
        return mean_with_interval(
            np.array([float(curve[end]) for curve, end in zip(curves, reached, strict=True)])
        )

    return BackendConvergence(
        backend=name,
        status=status,
        courses=counted,
        left_out=len(courses) - len(counted),
        reached=len(reached),
        seconds=at_target([course.seconds for course in counted]),
        with_start=at_target([course.with_start for course in counted]),
        steps=at_target([course.steps for course in counted]),
        final_loss=mean_with_interval(np.array([course.losses[-1] for course in counted]))
        if counted
        else None,
    )


def _compared(
    own: BackendConvergence, base: BackendConvergence, target: float, margin: float
) -> BackendConvergence:
    """A backend with the figures from pairs of launches."""
    ours, theirs = ({course.launch: course for course in side.courses} for side in (own, base))
    both = sorted(ours.keys() & theirs.keys())
    if own is base or not both or {own.status, base.status} != {"ok"}:
        return own
    pairs = [(theirs[launch], ours[launch]) for launch in both]
    differences = np.array([own_course.losses[-1] - course.losses[-1] for course, own_course in pairs])
    all_reached = own.reached == own.launches and base.reached == base.launches

    def ratio(curve: str) -> Speedup | None:
        if not all_reached:
            return None
        taken = np.array(
            [[getattr(course, curve)[course.reaches(target)] for course in pair] for pair in pairs]
        )
        if not (taken > 0).all():  # there before anything was timed
            return None
        return speedup_of_launches([np.array([log]) for log in np.log(taken[:, 0] / taken[:, 1])])

    return replace(
        own,
        sooner=ratio("seconds"),
        sooner_with_start=ratio("with_start"),
        fewer_steps=ratio("steps"),
        difference=mean_with_interval(differences),
        verdict=judge_difference(differences, margin),
    )
