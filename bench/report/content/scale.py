"""What results/predicted/ holds, for a page and its figures: points, lines, names, and how far they were
off."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.analysis.predictions import STRONG, WEAK
from bench.analysis.scale.topology import Topology
from bench.report.formatting import MISSING, number, plural
from bench.report.titles import spell_model

KINDS_OF_SCALING = {
    WEAK: "as many samples on every rank",
    STRONG: "as many samples in all, whatever the number of ranks",
}
"""How the batch grows with the ranks."""

SHARDINGS = {
    "ddp": "DDP",
    "zero_redundancy": "ZeroRedundancyOptimizer",
    "zero1": "ZeRO-1",
    "zero1_native": "ZeRO-1 in 16 bits alone",
    "zero2": "ZeRO-2",
    "zero3": "ZeRO-3",
    "zero2_offload": "ZeRO-2, offloaded",
    "zero3_offload": "ZeRO-3, offloaded",
    "fsdp2": "FSDP2",
}
"""In the field's words, in the order of tables and legends."""

DDP, ZERO1 = "ddp", "zero1"

CHECKS_FIGURE, PUBLISHED_FIGURE = "scale-checks", "scale-published"
"""The names of figures without their ending."""


@dataclass(frozen=True, kw_only=True)
class Banded:
    """A number and its bounds, where it has some."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Where its interval ends; at the number itself without one."""
        return (self.value if self.low is None else self.low), (
            self.value if self.high is None else self.high
        )

    def scaled(self, factor: float) -> "Banded":
        """The same in other units."""
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        return Banded(value=factor * self.value, low=low, high=high)

    def words(self, digits: int = 4) -> str:
        """Such as `1,234 [1,200–1,270]`: a comma between bounds would be one more in a number."""
        shown = number(self.value, digits)
        if self.low is None or self.high is None:
            return shown
        decimals = len(shown.partition(".")[2])
        return f"{shown} [{self.low:,.{decimals}f}–{self.high:,.{decimals}f}]"

    def three_decimals(self, unit: str = "") -> str:
        """Such as `1.234 [1.200–1.270]`: of a ratio."""
        bounded = self.low is not None and self.high is not None
        return f"{self.value:.3f}{unit}" + (f" [{self.low:.3f}–{self.high:.3f}]" if bounded else "")


def per_cent(share: Banded | None) -> str:
    """Such as `96 % [94–98]`."""
    if share is None:
        return MISSING
    decimals = 0 if abs(share.value) >= 0.1 else 1
    shown = f"{100 * share.value:.{decimals}f} %"
    if share.low is None or share.high is None:
        return shown
    return f"{shown} [{100 * share.low:.{decimals}f}–{100 * share.high:.{decimals}f}]"


# Scaling


@dataclass(frozen=True, kw_only=True)
class ScalePoint:
    """What is predicted for a world size.

    Attributes:
        ranks: how many there are.
        samples: a second, of all ranks.
        efficiency: samples a second of a rank, as a share of those of a rank alone.
        exposed: share of the step by which sending makes it longer.
        memory_gib: of a rank.
        limit_gib: that it has.
    """

    ranks: int
    samples: Banded | None
    efficiency: Banded | None
    exposed: float | None
    memory_gib: float | None
    limit_gib: float | None

    @property
    def fits(self) -> bool | None:
        """Whether it fits in memory; None if that is not known."""
        if self.memory_gib is None or self.limit_gib is None:
            return None
        return self.memory_gib <= self.limit_gib


@dataclass(frozen=True, kw_only=True)
class ScaleLine:
    """A sharding at every world size, in order."""

    sharding: str
    name: str
    points: Sequence[ScalePoint]

    def at(self, ranks: int) -> ScalePoint | None:
        """What is predicted for this world size."""
        return next((point for point in self.points if point.ranks == ranks), None)


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """One file: a model on a topology.

    Attributes:
        stem: the file's name without its ending.
        model: its name.
        topology: the machines.
        lines: by kind of scaling, with the volume that the page is about.
        by_textbook: likewise with the textbook's volume where that is another; may be empty.
        volume: that the page is about.
        workload: precision, batch and length in words.
        bases: where the seconds of computing are from.
        made_by: the command, and the commit.
    """

    stem: str
    model: str
    topology: Topology
    lines: dict[str, list[ScaleLine]]
    by_textbook: dict[str, list[ScaleLine]]
    volume: str
    workload: str
    bases: Sequence[str]
    made_by: str

    @property
    def title(self) -> str:
        """The model as its authors write it."""
        return spell_model(self.model)

    @property
    def figure(self) -> str:
        """The name of its figure without the ending."""
        return f"scale-{self.stem.removeprefix('scaling-')}"

    @property
    def main(self) -> str:
        """The kind of scaling that is shown first."""
        return next(iter(self.lines))

    def line(self, sharding: str, *, by_textbook: bool = False) -> ScaleLine | None:
        """The first line of a sharding in the first kind of scaling; that of the page if there is no
        other."""
        textbook = self.by_textbook.get(self.main, []) if by_textbook else []
        return next((one for one in (*textbook, *self.lines[self.main]) if one.sharding == sharding), None)


@dataclass(frozen=True, kw_only=True)
class CheckedPoint:
    """A point that was both predicted and measured; `error` is predicted / measured - 1."""

    machine: str
    model: str
    backend: str
    sharding: str
    link: str
    quantity: str
    unit: str
    measured_in: str
    git_commit: str
    ranks: int
    measured: Banded
    predicted: Banded
    error: float

    @property
    def is_equal(self) -> bool:
        """Whether nothing is off at all."""
        return self.measured.value == self.predicted.value

    @property
    def setting(self) -> str:
        """Model, backend and world size, such as `BERT-Mini, ZeRO-1, 2 ranks, loopback`."""
        ranks = plural(self.ranks, "rank")
        parts = [spell_model(self.model), name_sharding(self.sharding), ranks, self.link]
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Quantities that are checked by the same rule.

    Attributes:
        signs: of which one is in the quantity of `checks.csv`.
        allowed: how far a prediction may be off.
    """

    signs: Sequence[str]
    allowed: float

    @property
    def rule(self) -> str:
        """The same in words."""
        return f"within ±{100 * self.allowed:g} %" if self.allowed else "equal"


KINDS = (
    Kind(signs=("byte",), allowed=0.0),
    Kind(signs=("memory", "peak"), allowed=0.10),
    Kind(signs=("second", "step", "time"), allowed=0.08),
)


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How far predictions of a quantity were off."""

    quantity: str
    checks: Sequence[CheckedPoint]

    @property
    def kind(self) -> Kind | None:
        """By which rule they are checked, if there is one."""
        return next((one for one in KINDS if any(sign in self.quantity.lower() for sign in one.signs)), None)

    @property
    def mean(self) -> float:
        """Of the absolute errors."""
        return mean_error(self.checks)

    @property
    def worst(self) -> CheckedPoint:
        """The point that is off most."""
        return max(self.checks, key=lambda one: abs(one.error))

    @property
    def within(self) -> int:
        """How many points keep the rule."""
        if self.kind is None:
            return len(self.checks)
        return sum(
            abs(one.error) <= self.kind.allowed if self.kind.allowed else one.is_equal for one in self.checks
        )


@dataclass(frozen=True, kw_only=True)
class PublishedRatio:
    """Samples/s of ZeRO-1 over those of DDP, as published and as predicted."""

    model: str
    hardware: str
    engine: str
    source: str
    why: str
    ranks: int
    micro_batch: int | None
    published: float
    predicted: Banded
    error: float

    @property
    def title(self) -> str:
        """The model and its batch."""
        batch = "" if self.micro_batch is None else f", batch {self.micro_batch}"
        return f"{spell_model(self.model)}{batch}"

    @property
    def setting(self) -> str:
        """Hardware and engine."""
        return f"{self.hardware}, {self.engine}" if self.engine else self.hardware


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """A whole folder; what is not there is empty."""

    scalings: Sequence[Scaling]
    checks: Sequence[CheckedPoint]
    published: Sequence[PublishedRatio]

    @cached_property
    def accuracies(self) -> list[Accuracy]:
        """Of each quantity that was checked, in the order of `KINDS`."""
        names = dict.fromkeys(one.quantity for one in self.checks)
        found = [
            Accuracy(quantity=name, checks=[one for one in self.checks if one.quantity == name])
            for name in names
        ]
        return sorted(found, key=lambda one: KINDS.index(one.kind) if one.kind else len(KINDS))

    @cached_property
    def topologies(self) -> list[Topology]:
        """Each of those that are predicted for."""
        return list({one.topology.name: one.topology for one in self.scalings}.values())


def name_sharding(sharding: str) -> str:
    """In the field's words; an unknown one as it is."""
    return SHARDINGS.get(sharding, sharding)


def place_of_sharding(sharding: str) -> int:
    """Where it stands among others; unknown ones are last."""
    known = list(SHARDINGS)
    return known.index(sharding) if sharding in known else len(known)


def mean_error(published: Sequence[CheckedPoint | PublishedRatio]) -> float:
    """Of the absolute errors."""
    return sum(abs(one.error) for one in published) / len(published)
