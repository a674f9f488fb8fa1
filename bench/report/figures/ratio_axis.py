"""A logarithmic axis of ratios: where a ratio lies in inches, and which ones get a tick."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_TICKS = (
    *(1, 10, 0.1, 100, 0.01, 2, 0.5, 5, 0.2, 1.5, 0.7, 1.25, 0.8, 3, 0.3, 4, 0.4, 1.1, 0.9, 0.6, 1.75, 7),
    *(1.2, 1.3, 1.4, 0.85, 0.95, 1.05, 1.15, 0.75, 2.5, 6, 8, 20, 50, 200, 500, 1000, 0.05, 0.02, 0.001),
)
"""The earlier, the sooner a ratio gets a tick."""

REACH = 1.5
"""An interval that ends so many times beyond every value is cut there."""


@dataclass(frozen=True, kw_only=True)
class RatioAxis:
    """From `low` at `left` to `high` at `right`, both in inches."""

    low: float
    high: float
    left: float
    right: float

    def place(self, value: float) -> float:
        """Inches from the left; what lies beyond an end is put there."""
        share = math.log(self.clipped(value) / self.low) / math.log(self.high / self.low)
        return self.left + share * (self.right - self.left)

    def clipped(self, value: float) -> float:
        """The value, or the end that it lies beyond."""
        return min(max(value, self.low), self.high)

    def ticks(self, apart: float) -> list[float]:
        """Ratios at least so many inches apart; 1 is among them."""
        chosen: list[float] = []
        for tick in _TICKS:
            inside = self.low <= tick <= self.high
            if inside and all(abs(self.place(tick) - self.place(one)) >= apart for one in chosen):
                chosen.append(tick)
        return sorted(chosen)


def limits(values: Sequence[float], ends: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis that shows 1, all values, and intervals as far as they are not far longer.

    Args:
        values: ratios, above 0.
        ends: of intervals; they may be 0 or infinite.
    """
    low, high = min([0.95, *values]), max([1.05, *values])
    low = min([low, *(max(end, low / REACH) for end in ends)])
    high = max([high, *(min(end, high * REACH) for end in ends)])
    room = (high / low) ** 0.04
    return low / room, high * room
