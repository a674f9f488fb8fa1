"""What results/predicted/ holds, for a page and its figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.analysis.scale.tables import QUANTITIES, STRONG, WEAK
from bench.analysis.scale.topology import Topology
from bench.report.words.formatting import number, plural
from bench.report.words.titles import spell_model

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
"""Shardings in the field's words, in the order of tables and legends."""

DDP, ZERO1 = "ddp", "zero1"

CHECKS_FIGURE, PUBLISHED_FIGURE = "scale-checks", "scale-published"
"""The names of figures without their ending."""


@dataclass(frozen=True, kw_only=True)
class Banded:
    """A number and its bounds; without any, because it is exact or has none, they are the number itself."""

    value: float
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float]:
        """Where its interval begins and ends."""
        return self.low, self.high

    def words(self) -> str:
        """`1,234 [1,200–1,270]`."""
        return self.written(len(number(self.value).partition(".")[2]))

    def per_cent(self) -> str:
        """`96 % [94–98]`, for a share."""
        return self.written(0 if abs(self.value) >= 0.1 else 1, " %", 100)

    def written(self, decimals: int, unit: str = "", factor: float = 1) -> str:
        """`1.234× [1.200–1.270]`: everything times the factor, with so many decimals."""
        value, low, high = (f"{factor * end:,.{decimals}f}" for end in (self.value, self.low, self.high))
        return f"{value}{unit} [{low}–{high}]" if self.low < self.high else f"{value}{unit}"


# Scaling


@dataclass(frozen=True, kw_only=True)
class ScalePoint:
    """What is predicted for a world size."""

    ranks: int
    samples: Banded  # a second, of all ranks
    efficiency: Banded  # samples a second of a rank, as a share of those of a rank alone
    exposed: float  # share of the step by which sending makes it longer
    memory_gib: float  # that a rank needs
    limit_gib: float  # that it has

    @property
    def fits(self) -> bool:
        """Whether it fits in memory."""
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

    def over(self, other: "ScaleLine") -> dict[int, float]:
        """Samples/s over those of another line at every world size that both have."""
        pairs = ((point, other.at(point.ranks)) for point in self.points)
        return {point.ranks: point.samples.value / base.samples.value for point, base in pairs if base}


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """One file: a model on a topology."""

    stem: str  # the file's name without its ending
    model: str
    topology: Topology
    lines: dict[str, list[ScaleLine]]  # by kind of scaling, with the volume that the page is about
    by_textbook: dict[str, list[ScaleLine]]  # with the textbook's volume where that is another; may be empty
    volume: str  # that the page is about
    workload: str  # precision, batch and length in words
    bases: Sequence[str]  # where the seconds of computing are from
    made_by: str  # the command, and the commit

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
        """The first line of a sharding in the first kind of scaling; the textbook's only if there is one."""
        textbook = self.by_textbook.get(self.main, []) if by_textbook else []
        return next((line for line in (*textbook, *self.lines[self.main]) if line.sharding == sharding), None)

    def efficiencies(self, sharding: str) -> dict[int, Banded]:
        """The efficiency of a sharding by world size; empty if it was not predicted."""
        line = self.line(sharding)
        return {point.ranks: point.efficiency for point in line.points} if line else {}

    def zero1_over_ddp(self, *, by_textbook: bool = False) -> dict[int, float]:
        """Samples/s of ZeRO-1 over those of DDP at every world size above 1 that both have."""
        ddp, zero1 = (self.line(sharding, by_textbook=by_textbook) for sharding in (DDP, ZERO1))
        if ddp is None or zero1 is None:
            return {}
        return {ranks: ratio for ranks, ratio in zero1.over(ddp).items() if ranks > 1}


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
class Accuracy:
    """How far predictions of one of `QUANTITIES` were off."""

    quantity: str
    checks: Sequence[CheckedPoint]

    @property
    def allowed(self) -> float:
        """How far a prediction may be off, as a share."""
        return QUANTITIES[self.quantity].allowed

    @property
    def rule(self) -> str:
        """What is asked of a prediction, in words."""
        return f"within ±{100 * self.allowed:g} %" if self.allowed else "equal"

    @property
    def within(self) -> int:
        """How many points keep the rule."""
        return sum(
            abs(point.error) <= self.allowed if self.allowed else point.is_equal for point in self.checks
        )

    @property
    def worst(self) -> CheckedPoint:
        """The point that is off most."""
        return max(self.checks, key=lambda point: abs(point.error))


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
        """How far off each quantity was that was checked, in the order of `QUANTITIES`."""
        points = {name: [point for point in self.checks if point.quantity == name] for name in QUANTITIES}
        return [Accuracy(quantity=name, checks=checks) for name, checks in points.items() if checks]

    @cached_property
    def topologies(self) -> list[Topology]:
        """The machines that are predicted for."""
        return list({scaling.topology.name: scaling.topology for scaling in self.scalings}.values())


def name_sharding(sharding: str) -> str:
    """A sharding in the field's words; an unknown one as it is."""
    return SHARDINGS.get(sharding, sharding)


def place_of_sharding(sharding: str) -> int:
    """Where a sharding stands among others; unknown ones are last."""
    return [*SHARDINGS, sharding].index(sharding)


def mean_error(predicted: Sequence[CheckedPoint | PublishedRatio]) -> float:
    """The mean of the absolute errors."""
    return sum(abs(prediction.error) for prediction in predicted) / len(predicted)
