"""What each choice did to the speed of training on this machine, in everything that was measured here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.methods import find_methods
from bench.errors import PASSED, UserError
from bench.report.files import CLAIMS, METHODS, read_of_every_machine
from bench.results import csv_files

OTHER_MODEL = 0.25
"""By what share a choice may do more or less for a model than for those that were measured."""


@dataclass(frozen=True)
class Bounds:
    """A quantity that is not known exactly lies between these."""

    low: float
    high: float

    def __mul__(self, other: "Bounds") -> "Bounds":
        return Bounds(self.low * other.low, self.high * other.high)

    def scaled(self, factor: float) -> "Bounds":
        """Both bounds times a number."""
        return Bounds(self.low * factor, self.high * factor)

    def plus(self, number: float) -> "Bounds":
        """Both bounds and a number more."""
        return Bounds(self.low + number, self.high + number)


ANYTHING = Bounds(0.0, math.inf)

Choice = tuple[str, str]
"""A choice of a backend and its value, such as `("precision", "bf16")`."""


@dataclass(frozen=True, kw_only=True)
class Effects:
    """What choices did, each made alone against plain PyTorch.

    Attributes:
        speed: by choice, the bounds of throughput over that without it, over all models that were measured.
        failed: by choice, how it ended where it was never timed, such as `diverged on bert-mini`.
    """

    speed: Mapping[Choice, Bounds]
    failed: Mapping[Choice, str]


def read_comparisons(results_dir: Path) -> Sequence[ComparisonResults]:
    """Everything in a folder of results that may show what a choice does; what cannot be read is left out."""
    found: list[ComparisonResults] = []
    for path in sorted(results_dir.glob("*.csv")):
        try:
            found.append(ComparisonResults(stem=path.stem, rows=csv_files.read(path)))
        except UserError:
            continue  # `make report` names it
    for name in (METHODS, CLAIMS):
        found += read_of_every_machine(results_dir, name).comparisons
    return found


def find_effects(comparisons: Sequence[ComparisonResults], hardware_key: tuple[str, ...]) -> Effects:
    """The effects on one machine, with as many ranks and threads.

    Args:
        comparisons: of any machine.
        hardware_key: of this one, as `ComparisonResults.hardware_key`.
    """
    seen: dict[Choice, list[Bounds]] = {}
    failed: dict[Choice, str] = {}
    for comparison in comparisons:
        if comparison.hardware_key != hardware_key or comparison.uncontrolled or comparison.at_largest:
            continue
        if comparison.reference != "pytorch" or (methods := find_methods(comparison)) is None:
            continue
        for method in methods.methods:
            if len(method.changes) != 1:
                continue
            (change,) = method.changes
            choice = (change.choice, change.after)
            speedup = method.speedup
            if speedup is not None and speedup.low is not None and speedup.high is not None:
                seen.setdefault(choice, []).append(Bounds(speedup.low, speedup.high))
            elif method.status not in PASSED:
                model = str(comparison.rows["model"].iloc[0])
                failed.setdefault(choice, f"{method.status} on {model}")
    return Effects(
        speed={
            choice: Bounds(
                min(one.low for one in bounds) * (1 - OTHER_MODEL),
                max(one.high for one in bounds) * (1 + OTHER_MODEL),
            )
            for choice, bounds in seen.items()
        },
        failed={choice: words for choice, words in failed.items() if choice not in seen},
    )
