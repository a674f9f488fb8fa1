"""When a comparison stops: how many launches are missing, and whether `measure.until` wants one more."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.measure.plan.plans import TimedPlan
from bench.measure.plan.schedule import missing_launches
from bench.measure.stages.stage import Run
from bench.statistics.summary import widest_half_width


@dataclass(frozen=True)
class Decision:
    """Whether another launch follows, and why, in a sentence; empty where nobody asked."""

    another: bool
    reason: str = ""


@dataclass
class Stopping:
    """Decides after each launch whether another one follows."""

    shared: Run
    plan: TimedPlan

    def __post_init__(self) -> None:
        self.start_clock()

    def start_clock(self) -> None:
        """The time that `measure.most_seconds` limits begins now."""
        self._started = self.shared.clock()

    def missing(self, names: Sequence[str]) -> int:
        """How many launches of these backends are still to be made of those that were asked for."""
        if self.shared.plan.reference not in names:
            return 0
        earlier, rounds = self.shared.earlier, self.plan.rounds
        measured = earlier.fewest_rounds(names)
        missing = missing_launches(launches=self.shared.plan.launches, rounds=rounds, measured=measured)
        return max(missing, int(any(row["backend"] in names for row in earlier.retried)))

    def decide_on_another_launch(self, launches: int) -> Decision:
        """Whether an interval is still too wide and the caps allow one more launch.

        Args:
            launches: that this run has made.
        """
        until = self.plan.until
        if until is None or len(self.shared.names) < 2:
            return Decision(another=False)
        widest = widest_half_width(self.shared.ledger.rows())
        if widest is None:
            return Decision(False, "no backend has a speed-up, so that measure.until has nothing to wait for")
        total = self.shared.earlier.launches + launches
        if widest <= until:
            return Decision(False, f"every interval is within ± {until:.1%} after {total} launches")
        reached = (
            f"the widest interval is ± {widest:.1%}" if math.isfinite(widest) else "no interval is known"
        )
        if cap := self._reached_cap(launches):
            return Decision(False, f"{reached}, not ± {until:.1%}: another launch would pass {cap}")
        return Decision(True, f"{reached}, not yet ± {until:.1%}: launch {total + 1} follows")

    def _reached_cap(self, launches: int) -> str:
        """The setting that forbids another launch; empty if none does."""
        plan = self.plan
        if self.shared.earlier.launches + launches >= max(self.shared.plan.launches, plan.most_launches):
            return f"measure.most_launches={plan.most_launches}"
        if launches:
            seconds = self.shared.clock() - self._started
            if seconds * (launches + 1) / launches > plan.most_seconds:
                return f"measure.most_seconds={plan.most_seconds:g}"
        return ""
