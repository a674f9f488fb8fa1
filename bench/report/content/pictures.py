"""The figures of a report, and what each shows."""

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from bench.report.content.blocks import Picture

SPEED, TIME = "models-speedup", "breakdown"

CAPTIONS = {
    SPEED: "Training speed, model by model",
    "models-memory": "Peak memory, model by model",
    "speedup": "Speed-up over the reference backend",
    "memory": "Peak memory",
    "trade-off": "Speed-up against peak memory",
    TIME: "Where a step's time goes",
    "converge": "Held-out loss against time",
}
"""What a figure of each kind shows."""


@dataclass(frozen=True, kw_only=True)
class ReportFigure:
    """A figure of a report."""

    path: Path
    kind: str  # what it shows, of `CAPTIONS`
    of: str = ""  # of what, in words; empty for all comparisons
    caption: str = ""  # how to read it
    anchors: Set[str] = frozenset()  # of the comparisons that it is of, where these are some

    @property
    def picture(self) -> Picture:
        """The figure on a page."""
        words = ": ".join(filter(None, (CAPTIONS[self.kind], self.of)))
        return Picture(path=self.path, caption=words, note=self.caption)


def numbered(name: str, number: int) -> str:
    """The name of one of several figures: from the second on it ends in its number."""
    return name if number == 1 else f"{name}-{number}"
