"""How wide texts are, and texts wrapped or cut to what has room."""

import re
from functools import lru_cache

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties

from bench.report.words.formatting import one_line

_DPI = 720
"""Fine enough that hinting does not matter."""

_SLIM = 20
"""Letters to an em that no font has: even i and l are a quarter of one wide."""


@lru_cache(maxsize=4096)
def inches(words: str, points: float, weight: str = "normal") -> float:
    """How wide these words are."""
    font = FontProperties(size=points, weight=weight)
    width, _, _ = _renderer().get_text_width_height_descent(words, font, False)
    return 1.02 * float(width) / _DPI  # hinting makes small type a little wider


@lru_cache(maxsize=1)
def _renderer() -> RendererAgg:
    return RendererAgg(1, 1, _DPI)


def fits(words: str, points: float, most: float, weight: str = "normal") -> bool:
    """Whether the words are at most so many inches wide; far too long ones are not measured: it is slow."""
    return len(words) <= _SLIM * most * 72 / points and inches(words, points, weight) <= most


def line_inches(points: float) -> float:
    """From one line of text to the next."""
    return 1.25 * points / 72


def wrapped(words: str, points: float, most: float, weight: str = "normal") -> list[str]:
    """Lines of at most so many inches, broken at spaces; longer words behind a sign, or anywhere."""
    lines: list[str] = []
    for word in one_line(words).split():
        if lines and fits(f"{lines[-1]} {word}", points, most, weight):
            lines[-1] += f" {word}"
        else:
            lines += _broken(word, points, most, weight)
    return lines


def _broken(word: str, points: float, most: float, weight: str) -> list[str]:
    pieces = []
    while len(word) > 1 and not fits(word, points, most, weight):
        longest = _longest_start(word, points, most, weight)
        sign = re.match(r".*[-_/+,=]", word[:longest])
        end = sign.end() if sign else longest
        pieces.append(word[:end])
        word = word[end:]
    return [*pieces, word]


def fitted(words: str, points: float, most: float, weight: str = "normal") -> str:
    """The words, or as many of their characters as fit, and an ellipsis."""
    words = one_line(words)
    if fits(words, points, most, weight):
        return words
    return words[: _longest_start(words, points, most, weight, ending="…")].rstrip(" ,;:") + "…"


def _longest_start(words: str, points: float, most: float, weight: str, ending: str = "") -> int:
    """How many characters fit, at least one."""
    short, long = 1, len(words)
    while short < long:
        middle = (short + long + 1) // 2
        if fits(words[:middle] + ending, points, most, weight):
            short = middle
        else:
            long = middle - 1
    return short
