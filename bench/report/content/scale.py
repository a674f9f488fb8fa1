"""What results/predicted/ holds, for a page and its figures; a damaged file is refused in one sentence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import pandas as pd

from bench.analysis.scale import topology
from bench.analysis.scale.tables import (
    CHECKS,
    COUNTED,
    MEMORY,
    PUBLISHED,
    QUANTITIES,
    SCALING,
    STRONG,
    WEAK,
    bounded,
)
from bench.errors import UserError
from bench.report.content.kinds import name_sharding, place_of_sharding
from bench.report.words.formatting import number, plural
from bench.report.words.titles import spell_model

KINDS_OF_SCALING = {
    WEAK: "as many samples on every rank",
    STRONG: "as many samples in all, whatever the number of ranks",
}
"""How the batch grows with the ranks."""

CHECKS_FIGURE, PUBLISHED_FIGURE = "scale-checks", "scale-published"
"""The names of figures without their ending."""


@dataclass(frozen=True)
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


ScalePoint: TypeAlias = Any
"""What is predicted for a world size, a row of `SCALING`.

With `samples` per second of all ranks and `efficiency`, both `Banded`; `exposed`, the share of the step by
which sending makes it longer; `needed_gib`, which a rank needs, and whether that `fits` in its `memory_gib`.
"""


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """One file: a model on a topology, with the bytes that libraries were counted to send."""

    stem: str  # the file's name without its ending
    model: str
    title: str  # the model as its authors write it
    topology: topology.Topology
    # what is predicted at every world size, in order, by kind of scaling and sharding
    lines: dict[str, dict[str, list[ScalePoint]]]
    workload: str  # precision, batch and length in words
    bases: Sequence[str]  # where the seconds of computing are from
    made_by: str  # the command, and the commit
    figure: str  # the name of its figure without the ending


CheckedPoint: TypeAlias = Any
"""A point that was both predicted and measured, a row of `CHECKS`, memory in MiB.

`measured` and `predicted` are `Banded`; its `setting` is in words; `is_equal` if nothing is off at all.
"""

PublishedRatio: TypeAlias = Any
"""Samples/s of ZeRO-1 over those of DDP, a row of `PUBLISHED`.

`published` is a number and `predicted` is `Banded`; it has its `title`, model and batch, and its `setting`,
hardware and engine, in words.
"""


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


# Reading


def read_predictions(folder: Path) -> Predictions:
    """Read results/predicted/, or what of it is there.

    Raises:
        UserError: one of its files is damaged, or names a topology that is not known.
    """
    scalings = [_read_scaling(path) for path in sorted(folder.glob("scaling-*.csv"))]
    checks, published = folder / "checks.csv", folder / "published.csv"
    return Predictions(
        scalings=sorted(scalings, key=lambda scaling: scaling.topology.name),
        checks=_read_checks(checks) if checks.exists() else [],
        published=_read_published(published) if published.exists() else [],
    )


def _check(path: Path, table: pd.DataFrame, needed: Sequence[str]) -> pd.DataFrame:
    """A table with whole world sizes.

    Raises:
        UserError: a needed number is blank, or `ranks` is no world size.
    """
    for name in ("ranks", *needed):
        if table[name].isna().any():
            _refuse(path, f"{name} is blank")
    for ranks in table["ranks"]:
        if ranks < 1 or ranks % 1:
            _refuse(path, f"ranks is {ranks:g}")
    return table.astype({"ranks": int})


def _bands(table: pd.DataFrame, name: str) -> pd.Series:
    """A column of numbers, none of which is blank, with its bounds, which may be."""
    value, low, high = (table[column] for column in bounded(name))
    # Written with six digits, a bound may come to lie on the other side of an equal number.
    ends = zip(value, low.fillna(value).clip(upper=value), high.fillna(value).clip(lower=value), strict=True)
    return pd.Series([Banded(*numbers) for numbers in ends], index=table.index, dtype=object)


def _refuse(path: Path, why: str) -> NoReturn:
    raise UserError(
        f"{path} cannot be read as predictions ({why})", "restore it with `git checkout`, or predict again"
    )


def _refuse_others(path: Path, table: pd.DataFrame, column: str, known: Iterable[str]) -> None:
    if others := sorted(set(table[column]) - {*known}):
        _refuse(path, f"{column} is {others[0]}, which is none of {', '.join(known)}")


def _read_scaling(path: Path) -> Scaling:
    table = SCALING.read(path)
    table = table[table["volume"] == COUNTED]
    _refuse_others(path, table, "scaling", KINDS_OF_SCALING)
    for name in ("model", "topology", "precision"):
        if table[name].nunique() != 1:
            _refuse(path, f"{name} is {' and '.join(sorted(set(table[name]))) or 'blank'}")
    if table.duplicated(["scaling", "sharding", "ranks"]).any():
        _refuse(path, "a world size of a sharding is there twice")
    known = ("step_s", "exposed_s", "samples_per_s", "efficiency", "memory_gib")
    table = _check(path, table, ["memory_gib", *(f"predicted_{name}" for name in known)])
    table = table.sort_values("ranks", kind="stable").assign(
        samples=_bands(table, "predicted_samples_per_s"),
        efficiency=_bands(table, "predicted_efficiency"),
        exposed=table["predicted_exposed_s"] / table["predicted_step_s"],
        needed_gib=table["predicted_memory_gib"],
        fits=table["predicted_memory_gib"] <= table["memory_gib"],
    )
    lines = {
        kind: {
            name: list(of_kind[of_kind["sharding"] == name].itertuples())
            for name in sorted(of_kind["sharding"].unique(), key=place_of_sharding)
        }
        for kind in KINDS_OF_SCALING
        if not (of_kind := table[table["scaling"] == kind]).empty
    }
    first = table.iloc[0]
    batch = table.loc[table["scaling"] == WEAK, "micro_batch"].max()
    sizes = {"batch of a rank": batch, "length": first["seq_len"]}
    known_sizes = [f"{name} {size:g}" for name, size in sizes.items() if pd.notna(size)]
    return Scaling(
        stem=path.stem,
        model=first["model"],
        title=spell_model(first["model"]),
        topology=topology.load(first["topology"]),
        lines=lines,
        workload=", ".join([first["precision"], *known_sizes]),
        bases=[basis for basis in dict.fromkeys(table["basis"]) if basis],
        made_by=f"{first['command']}; commit {first['git_commit']}",
        figure=f"scale-{path.stem.removeprefix('scaling-')}",
    )


def _read_checks(path: Path) -> list[CheckedPoint]:
    table = CHECKS.read(path)
    _refuse_others(path, table, "quantity", QUANTITIES)
    equal = table["measured"] == table["predicted"]  # also where both are 0, and the error has no number
    table["error"] = table["error"].mask(equal, 0.0)
    table = _check(path, table, ["measured", "predicted", "error"])
    memory = table["quantity"] == MEMORY
    table.loc[memory, [*bounded("measured"), *bounded("predicted")]] /= 2**20
    table.loc[memory, "unit"] = "MiB"
    rows: list[Any] = list(table.itertuples())
    named = [
        (spell_model(row.model), name_sharding(row.sharding), plural(row.ranks, "rank"), row.link)
        for row in rows
    ]
    settings = [", ".join(filter(None, words)) for words in named]
    measured, predicted = _bands(table, "measured"), _bands(table, "predicted")
    table = table.assign(setting=settings, is_equal=equal, measured=measured, predicted=predicted)
    return list(table.itertuples())


def _read_published(path: Path) -> list[PublishedRatio]:
    table = PUBLISHED.read(path)
    table = _check(path, table, ["published_ratio", "predicted_ratio", "error"])
    rows: list[Any] = list(table.itertuples())
    batches = ["" if pd.isna(row.micro_batch) else f", batch {row.micro_batch:g}" for row in rows]
    table = table.assign(
        title=[spell_model(row.model) + batch for row, batch in zip(rows, batches, strict=True)],
        setting=[", ".join(filter(None, [row.hardware, row.engine])) for row in rows],
        published=table["published_ratio"],
        predicted=_bands(table, "predicted_ratio"),
    )
    return list(table.itertuples())
