"""An axis of a row chart: where along it a value lies, and which values get a tick."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.ticker import MaxNLocator

_RATIOS = (
    *(1, 10, 0.1, 100, 0.01, 2, 0.5, 5, 0.2, 1.5, 0.7, 1.25, 0.8, 3, 0.3, 4, 0.4, 1.1, 0.9, 0.6, 1.75, 7),
    *(1.2, 1.3, 1.4, 0.85, 0.95, 1.05, 1.15, 0.75, 2.5, 6, 8, 20, 50, 200, 500, 1000, 0.05, 0.02, 0.001),
)
"""The earlier, the sooner a ratio gets a tick."""

REACH = 1.5
"""An interval that ends so many times beyond every value is cut there."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """From `low` to `high`: of ratios and logarithmic, or linear."""

    low: float
    high: float
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1; what lies beyond an end is put there."""
        value = self.clipped(value)
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def clipped(self, value: float) -> float:
        """The value, or the end that it lies beyond."""
        return min(max(value, self.low), self.high)

    def ticks(self, apart: float) -> list[float]:
        """Round values at least such a share of the axis apart; of ratios 1 is among them."""
        if not self.logarithmic:
            locator = MaxNLocator(max(1, min(9, int(1 / apart))), steps=[1, 2, 2.5, 5, 10])
            ticks = locator.tick_values(self.low, self.high)
            return [float(tick) for tick in ticks if self.low <= tick <= self.high]
        chosen: list[float] = []
        for tick in _RATIOS:
            inside = self.low <= tick <= self.high
            if inside and all(abs(self.share(tick) - self.share(other)) >= apart for other in chosen):
                chosen.append(tick)
        return sorted(chosen)


def ratio_axis(values: Sequence[float], ends: Sequence[float] = ()) -> Axis:
    """The axis that shows 1, all values, and intervals as far as they are not far longer.

    Args:
        values: ratios, above 0.
        ends: of intervals; they may be 0 or infinite.
    """
    low, high = min([0.95, *values]), max([1.05, *values])
    low = min([low, *(max(end, low / REACH) for end in ends)])
    high = max([high, *(min(end, high * REACH) for end in ends)])
    room = (high / low) ** 0.04
    return Axis(low=low / room, high=high * room, logarithmic=True)
