"""The figures of a report, and what each shows."""

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from bench.report.content.blocks import Picture

SPEED = "models-speedup"
MORE = "More figures"

CAPTIONS = {
    SPEED: "Training speed, model by model",
    "models-memory": "Peak memory, model by model",
    "speedup": "Speed-up over the reference backend",
    "memory": "Peak memory",
    "trade-off": "Speed-up against peak memory",
    "converge": "Held-out loss against time",
}
"""What a figure of each kind of the core shows."""


@dataclass(frozen=True, kw_only=True)
class ReportFigure:
    """A figure of a report."""

    path: Path
    kind: str  # what it shows: of `CAPTIONS`, or a study's
    of: str = ""  # of what, in words; empty for all comparisons
    caption: str = ""  # how to read it
    section: str = MORE  # in which it stands where it is not at the top of a page
    anchors: Set[str] = frozenset()  # of the comparisons that it is of, where these are some

    @property
    def picture(self) -> Picture:
        """The figure on a page."""
        words = ": ".join(filter(None, (CAPTIONS.get(self.kind, self.section), self.of)))
        return Picture(path=self.path, caption=words, note=self.caption)


def numbered(name: str, number: int) -> str:
    """The name of one of several figures: from the second on it ends in its number."""
    return name if number == 1 else f"{name}-{number}"
