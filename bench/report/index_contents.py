"""What index.md and index.html show, and the captions that they share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.analysis.claims import Finding
from bench.report.collection import Collection


@dataclass(frozen=True, kw_only=True)
class OtherPage:
    """A page of a report that is not about one comparison.

    Attributes:
        name: its file.
        about: the words of the link.
        made_of: what of the results folder it is made of.
    """

    name: str
    about: str
    made_of: str


SUPPORT = OtherPage(name="support.md", about="Which backend trains which model", made_of="matrix")

SELFTEST = OtherPage(
    name="selftest.md",
    about="The harness, measured by comparisons whose outcome is known",
    made_of="selftest/verdicts.csv",
)

OTHER_PAGES = (SUPPORT, SELFTEST)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Everything that is shown over all comparisons.

    Attributes:
        collection: the comparisons.
        of_models: the figures over many models, light ones; each has a dark one beside it (`dark_of`).
        figures: the files of all others, in the order in which they are shown.
        not_drawn: what there was too much of for a figure, a sentence for each.
        findings: what became of each claim.
        warned: the harness's warnings about each comparison, by its file's stem.
        other_pages: those that this report has.
    """

    collection: Collection
    of_models: Sequence[Path]
    figures: Sequence[Path]
    not_drawn: Sequence[str]
    findings: Sequence[Finding]
    warned: Mapping[str, Sequence[str]]
    other_pages: Sequence[OtherPage]


def dark_of(path: Path) -> Path:
    """The dark figure that stands beside a light one over many models."""
    return path.with_stem(f"{path.stem}-dark")


_CAPTIONS = {
    "models-speedup": "Training speed, model by model",
    "models-memory": "Peak memory, model by model",
    "models-energy": "Energy per sample, model by model",
    "models-breakdown": "Where a step's time goes, model by model",
    "speedup": "Speed-up over the reference backend",
    "breakdown": "Where a step's time goes",
    "attribution": "What made the difference",
    "fairness": "What an uncontrolled harness would print",
    "memory": "Peak memory",
    "break-even": "Steps until the set-up is paid for",
    "rounds": "Step time in every round",
}


def caption(stem: str) -> str:
    """A figure in words, from the name of its file."""
    name = next(known for known in _CAPTIONS if stem.startswith(known))
    rest = stem.removeprefix(name).removeprefix("-")
    return f"{_CAPTIONS[name]}, {rest}" if rest else _CAPTIONS[name]
