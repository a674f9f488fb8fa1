"""How numbers and texts are written in every table, caption and message."""

import re
from collections.abc import Sequence

from bench.statistics.intervals import Speedup

TIMES = "\N{MULTIPLICATION SIGN}"

MISSING = "\N{EN DASH}"  # stands where there is no number
MOST_NAMED = 3  # models, or backends, that a sentence or a title names one by one


def number(value: float | None, digits: int = 4) -> str:
    """A number with about `digits` significant digits; digits before the point are never rounded away."""
    if value is None:
        return MISSING
    decimals = max(0, digits - len(str(int(abs(value))))) if abs(value) >= 1 else digits - 1
    return f"{value:,.{decimals}f}"


def share(value: float | None) -> str:
    """A share with two significant digits, such as `38 %`."""
    return MISSING if value is None else f"{number(100 * value, 2)} %"


def small(value: float | None) -> str:
    """A number that may be very small, such as a loss difference."""
    return MISSING if value is None else f"{value:.2g}"


def ratio(value: float | None) -> str:
    """A ratio with its sign, such as 1.324 and the multiplication sign."""
    return MISSING if value is None else f"{value:.3f}{TIMES}"


def short_ratio(value: float) -> str:
    """Two decimals, or as many as keep a ratio apart from 1; without a sign."""
    digits = next((digits for digits in (2, 3, 4) if f"{value:.{digits}f}" != f"{1:.{digits}f}"), 2)
    return f"{value:.{digits}f}"


def ratio_range(ratios: Sequence[float]) -> str:
    """`0.80 to 1.06`: the lowest and the highest of some ratios."""
    return " to ".join(dict.fromkeys(map(short_ratio, (min(ratios), max(ratios)))))


def ratio_and_interval(speedup: Speedup | None) -> str:
    """A ratio, and its interval behind it."""
    return MISSING if speedup is None else str(speedup)


def enumerated(words: Sequence[str]) -> str:
    """`a, b and c`."""
    *first, last = words or [""]
    return f"{', '.join(first)} and {last}" if first else last


def as_sentence(words: str) -> str:
    """Words with a capital letter and a full stop."""
    return f"{words[0].upper()}{words[1:]}."


def one_line(text: str) -> str:
    """Foreign text on one line, without control characters (a log may hold colour codes)."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    return "".join(filter(str.isprintable, " ".join(text.split())))
