"""Reads results/predicted/, or what of it is there; a damaged file is one sentence."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from bench.analysis.predictions import CHECKS, COUNTED, PUBLISHED, SCALING, TEXTBOOK
from bench.analysis.scale import topology
from bench.errors import UserError
from bench.report.content.scale import (
    KINDS_OF_SCALING,
    Banded,
    CheckedPoint,
    Predictions,
    PublishedRatio,
    ScaleLine,
    ScalePoint,
    Scaling,
    name_sharding,
    place_of_sharding,
)
from bench.results.side_files import TableFile

MIB = 2**20


def read_predictions(folder: Path) -> Predictions:
    """Read results/predicted/, or what of it is there.

    Raises:
        UserError: one of its files is damaged, or names a topology that is not known.
    """
    scalings = [_read_scaling(path) for path in sorted(folder.glob("scaling-*.csv"))]
    order = topology.names()
    scalings.sort(key=lambda one: (order.index(one.topology.name), one.stem))
    return Predictions(
        scalings=scalings,
        checks=[_check(row) for row in _rows(folder / "checks.csv", CHECKS)],
        published=[_published(row) for row in _rows(folder / "published.csv", PUBLISHED)],
    )


class _Row:
    """A row of a table, whose numbers may be blank."""

    def __init__(self, path: Path, cells: dict[Any, Any]) -> None:
        self._path = path
        self._cells = cells

    def text(self, name: str) -> str:
        return str(self._cells[name])

    def number(self, name: str) -> float | None:
        value = float(self._cells[name])
        if math.isinf(value):
            _refuse(self._path, f"{name} is not finite")
        return None if math.isnan(value) else value

    def needed(self, name: str) -> float:
        value = self.number(name)
        if value is None:
            _refuse(self._path, f"{name} is blank")
        return value

    def whole(self, name: str) -> int:
        value = self.needed(name)
        if value != int(value) or value < 1:
            _refuse(self._path, f"{name} is {value:g}")
        return int(value)

    def banded(self, name: str) -> Banded | None:
        value = self.number(name)
        if value is None:
            return None
        low, high = self.number(f"{name}_low"), self.number(f"{name}_high")
        if low == high:  # it is exact, or nothing is known of it
            return Banded(value=value)
        # Written with six digits, a bound may come to lie on the other side of an equal number.
        return Banded(
            value=value,
            low=None if low is None else min(low, value),
            high=None if high is None else max(high, value),
        )

    def needed_banded(self, name: str) -> Banded:
        self.needed(name)
        found = self.banded(name)
        assert found is not None, "it is not blank"
        return found


def _rows(path: Path, kind: TableFile) -> Iterator[_Row]:
    if path.exists():
        yield from (_Row(path, cells) for cells in kind.read(path).to_dict("records"))


def _refuse(path: Path, why: str) -> NoReturn:
    raise UserError(
        f"{path} cannot be read as predictions ({why})", "restore it with `git checkout`, or predict again"
    )


def _read_scaling(path: Path) -> Scaling:
    table = SCALING.read(path)
    for name in ("model", "topology"):
        if table[name].nunique() > 1:
            _refuse(path, f"{name} is {' and '.join(sorted(set(table[name])))}")
    if others := sorted(set(table["scaling"]) - {*KINDS_OF_SCALING}):
        _refuse(path, f"scaling is {others[0]}, which is none of {', '.join(KINDS_OF_SCALING)}")
    volumes = list(dict.fromkeys(table["volume"]))
    volume = COUNTED if COUNTED in volumes else volumes[0]
    return Scaling(
        stem=path.stem,
        model=str(table["model"].iloc[0]),
        topology=topology.load(str(table["topology"].iloc[0])),
        lines=_lines(path, table, volume),
        by_textbook={} if volume == TEXTBOOK else _lines(path, table, TEXTBOOK),
        volume=volume,
        workload=_workload(table),
        bases=[one for one in dict.fromkeys(table["basis"]) if one],
        made_by=f"{table['command'].iloc[0]}; commit {table['git_commit'].iloc[0]}",
    )


def _lines(path: Path, table: pd.DataFrame, volume: str) -> dict[str, list[ScaleLine]]:
    """By kind of scaling; those of several precisions are told apart."""
    mine = table[table["volume"] == volume]
    several = table["precision"].nunique() > 1
    found: dict[str, list[ScaleLine]] = {}
    for kind in KINDS_OF_SCALING:
        groups = mine[mine["scaling"] == kind].groupby(["sharding", "precision"], sort=False)
        lines = [
            ScaleLine(
                sharding=str(sharding),
                name=name_sharding(str(sharding)) + (f", {precision}" if several else ""),
                points=_points(path, group),
            )
            for (sharding, precision), group in groups
        ]
        if lines:
            found[kind] = sorted(lines, key=lambda one: place_of_sharding(one.sharding))
    return found


def _points(path: Path, group: pd.DataFrame) -> list[ScalePoint]:
    points = []
    for row in (_Row(path, cells) for cells in group.to_dict("records")):
        step, exposed = row.number("predicted_step_s"), row.number("predicted_exposed_s")
        points.append(
            ScalePoint(
                ranks=row.whole("ranks"),
                samples=row.banded("predicted_samples_per_s"),
                efficiency=row.banded("predicted_efficiency"),
                exposed=exposed / step if step and exposed is not None else None,
                memory_gib=row.number("predicted_memory_gib"),
                limit_gib=row.number("memory_gib"),
            )
        )
    points.sort(key=lambda one: one.ranks)
    if len({one.ranks for one in points}) < len(points):
        _refuse(path, "a world size of a sharding is there twice")
    return points


def _workload(table: pd.DataFrame) -> str:
    """Precision, batch of a rank under weak scaling, and length."""
    weak = table[table["scaling"] == "weak"]
    parts = [
        ", ".join(dict.fromkeys(table["precision"])),
        _span("batch of a rank", weak["micro_batch"]),
        _span("length", table["seq_len"]),
    ]
    return ", ".join(filter(None, parts))


def _span(what: str, values: pd.Series) -> str:
    """Such as `length 128`, or `length 128 to 512`."""
    known = values.dropna()
    if known.empty:
        return ""
    ends = dict.fromkeys(f"{end:g}" for end in (known.min(), known.max()))
    return f"{what} {' to '.join(ends)}"


def _check(row: _Row) -> CheckedPoint:
    """Of a row; memory in MiB, which bytes would be too many digits of."""
    texts = {name: row.text(name) for name in CHECKS.texts}
    measured, predicted = row.needed_banded("measured"), row.needed_banded("predicted")
    equal = measured.value == predicted.value  # also where both are 0, and the error has no number
    error = 0.0 if equal else row.needed("error")
    if texts["unit"] == "B" and texts["quantity"].startswith("memory"):
        texts["unit"] = "MiB"
        measured, predicted = measured.scaled(1 / MIB), predicted.scaled(1 / MIB)
    return CheckedPoint(
        **texts, ranks=row.whole("ranks"), measured=measured, predicted=predicted, error=error
    )


def _published(row: _Row) -> PublishedRatio:
    batch = row.number("micro_batch")
    texts = {name: row.text(name) for name in PUBLISHED.texts}
    return PublishedRatio(
        **texts,
        ranks=row.whole("ranks"),
        micro_batch=None if batch is None else int(batch),
        published=row.needed("published_ratio"),
        predicted=row.needed_banded("predicted_ratio"),
        error=row.needed("error"),
    )
