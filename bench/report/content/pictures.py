"""The figures of a report, and what each shows."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from bench.report.content.blocks import Picture

MORE = "More figures"


@dataclass(frozen=True, kw_only=True)
class ReportFigure:
    """A figure of a report."""

    path: Path
    title: str  # what it shows
    of: str = ""  # the comparisons shown, in words; empty for all
    caption: str = ""  # how to read it
    section: str = MORE  # in which it stands where it is not at the top of a page
    beside_answer_of: Set[str] = frozenset()  # at the top of a page, by anchors of comparisons

    @property
    def picture(self) -> Picture:
        """The figure on a page."""
        words = ": ".join(filter(None, (self.title, self.of)))
        return Picture(path=self.path, caption=words, note=self.caption)


Planned: TypeAlias = tuple[ReportFigure, Callable[[], None]]
"""A figure, and the function that draws and writes it."""


def numbered(name: str, number: int) -> str:
    """The name of one of several figures: from the second on it ends in its number."""
    return name if number == 1 else f"{name}-{number}"
