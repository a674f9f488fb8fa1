"""Ratios and lists of models, as the sentences of the answer write them."""

from collections.abc import Sequence

from bench.analysis.answer import Outcome
from bench.report.words.formatting import TIMES, enumerated, plural

MOST_NAMED = 3
"""Models that a sentence names one by one."""


def number(ratio: float) -> str:
    """Two decimals, or as many as keep a ratio apart from 1."""
    digits = next((digits for digits in (2, 3, 4) if f"{ratio:.{digits}f}" != f"{1:.{digits}f}"), 2)
    return f"{ratio:.{digits}f}"


def number_range(ratios: Sequence[float]) -> str:
    """`0.80 to 1.06`: the lowest and the highest of some ratios."""
    low, high = number(min(ratios)), number(max(ratios))
    return low if low == high else f"{low} to {high}"


def ratio_range(outcomes: Sequence[Outcome]) -> str:
    """The same of outcomes that have a speed-up, with the multiplication sign."""
    return number_range([outcome.speedup.ratio for outcome in outcomes if outcome.speedup]) + TIMES


def name_models(models: Sequence[str]) -> str:
    """Their names, or how many there are where a list would not be read."""
    if len(models) > MOST_NAMED:
        return plural(len(models), "model")
    return enumerated(models)
