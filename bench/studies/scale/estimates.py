"""Numbers with their uncertainty, carried through every formula as draws."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.statistics.intervals import Floats

Draws = Floats
"""Shape (draws, 1), to be combined with world sizes of shape (world sizes,). The first draw is the best
guess."""

QUANTILE = 1.959964  # standard deviations around the mean that hold 95 % of a normal distribution


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A positive number, and the bounds within which it lies with 95 %."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} does not lie in [{self.low}, {self.high}], or is not above zero")

    @classmethod
    def exactly(cls, value: float) -> "Estimate":
        """A number that is known."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def of(cls, cells: Mapping[str, Any], unit: float = 1.0) -> "Estimate":
        """An estimate from `value`, `low` and `high` of a YAML file, which are in this unit."""
        return cls(**{name: float(cells[name]) * unit for name in ("value", "low", "high")})


class Dice:
    """Draws figures independently of each other, a new one per request; a single draw is the best guess."""

    def __init__(self, draws: int = 1, seed: int = 0) -> None:
        self._draws = draws
        self._generator = np.random.default_rng(seed)

    def draw(self, figure: Estimate) -> Draws:
        """A distribution with these bounds: the logarithm is normal on each side of the value."""
        deviates = self._generator.standard_normal((self._draws, 1))
        deviates[0] = 0.0
        above = np.log(figure.high / figure.value) / QUANTILE
        below = np.log(figure.value / figure.low) / QUANTILE
        return np.asarray(figure.value * np.exp(np.where(deviates > 0, above, below) * deviates))


def estimates_of(draws: Floats) -> list[Estimate]:
    """At every world size the best guess and 95 % of the draws, of shape (draws, world sizes)."""
    best, bounds = draws[0], np.quantile(draws, [0.025, 0.975], axis=0)
    return [
        Estimate(value=float(value), low=float(min(low, value)), high=float(max(high, value)))
        for value, low, high in zip(best, *bounds, strict=True)
    ]
