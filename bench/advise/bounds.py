"""A quantity of which only bounds are known."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """The least and the largest value that a quantity may have."""

    low: float
    high: float

    def __mul__(self, other: "Bounds") -> "Bounds":
        return Bounds(self.low * other.low, self.high * other.high)

    def __add__(self, other: "Bounds") -> "Bounds":
        return Bounds(self.low + other.low, self.high + other.high)

    @property
    def middle(self) -> float:
        """Half-way between them."""
        return (self.low + self.high) / 2

    @property
    def is_finite(self) -> bool:
        """Whether anything is known of how much it can be at most."""
        return math.isfinite(self.high)


def exactly(value: float) -> Bounds:
    """Both bounds are the same."""
    return Bounds(value, value)


ANYTHING = Bounds(0.0, math.inf)
