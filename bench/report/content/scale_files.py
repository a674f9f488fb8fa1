"""Reads results/predicted/; a damaged file is refused in one sentence."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from bench.analysis.scale import topology
from bench.analysis.scale.tables import (
    CHECKS,
    COUNTED,
    MEMORY,
    PUBLISHED,
    QUANTITIES,
    SCALING,
    TEXTBOOK,
    WEAK,
    bounded,
)
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

MIB = 2**20

_PREDICTED = (
    *("predicted_step_s", "predicted_exposed_s", "predicted_samples_per_s", "predicted_efficiency"),
    *("predicted_memory_gib", "memory_gib"),
)
"""What is known of every world size."""


def read_predictions(folder: Path) -> Predictions:
    """Read results/predicted/, or what of it is there.

    Raises:
        UserError: one of its files is damaged, or names a topology that is not known.
    """
    scalings = [_read_scaling(path) for path in sorted(folder.glob("scaling-*.csv"))]
    order = topology.names()
    scalings.sort(key=lambda scaling: (order.index(scaling.topology.name), scaling.stem))
    return Predictions(
        scalings=scalings,
        checks=list(_read_checks(folder / "checks.csv")),
        published=list(_read_published(folder / "published.csv")),
    )


def _rows(path: Path, table: pd.DataFrame, needed: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a table, with None for a blank number.

    Raises:
        UserError: a number is not finite, a needed one is blank, or `ranks` is no world size.
    """
    for name in table.select_dtypes("number"):
        if np.isinf(table[name]).any():
            _refuse(path, f"{name} is not finite")
    for name in ("ranks", *needed):
        if table[name].isna().any():
            _refuse(path, f"{name} is blank")
    for ranks in table["ranks"]:
        if ranks < 1 or ranks % 1:
            _refuse(path, f"ranks is {ranks:g}")
    known = table.astype(object).where(table.notna(), None).assign(ranks=table["ranks"].astype(int))
    return [{str(name): cell for name, cell in row.items()} for row in known.to_dict("records")]


def _banded(row: Mapping[str, Any], name: str) -> Banded:
    """A number that is not blank, and its bounds, which may be."""
    value, low, high = (row[column] for column in bounded(name))
    # Written with six digits, a bound may come to lie on the other side of an equal number.
    return Banded(
        value=value,
        low=value if low is None else min(low, value),
        high=value if high is None else max(high, value),
    )


def _refuse(path: Path, why: str) -> NoReturn:
    raise UserError(
        f"{path} cannot be read as predictions ({why})", "restore it with `git checkout`, or predict again"
    )


def _refuse_others(path: Path, table: pd.DataFrame, column: str, known: Collection[str]) -> None:
    if others := sorted(set(table[column]) - set(known)):
        _refuse(path, f"{column} is {others[0]}, which is none of {', '.join(known)}")


def _read_scaling(path: Path) -> Scaling:
    table = SCALING.read(path)
    for name in ("model", "topology"):
        if table[name].nunique() > 1:
            _refuse(path, f"{name} is {' and '.join(sorted(set(table[name])))}")
    _refuse_others(path, table, "scaling", KINDS_OF_SCALING)
    if table.duplicated(["volume", "scaling", "sharding", "precision", "ranks"]).any():
        _refuse(path, "a world size of a sharding is there twice")
    rows = _rows(path, table, needed=_PREDICTED)
    volumes = list(dict.fromkeys(table["volume"]))
    volume = COUNTED if COUNTED in volumes else volumes[0]
    return Scaling(
        stem=path.stem,
        model=str(table["model"].iloc[0]),
        topology=topology.load(str(table["topology"].iloc[0])),
        lines=_lines(rows, volume),
        by_textbook={} if volume == TEXTBOOK else _lines(rows, TEXTBOOK),
        volume=volume,
        workload=_workload(table),
        bases=[basis for basis in dict.fromkeys(table["basis"]) if basis],
        made_by=f"{table['command'].iloc[0]}; commit {table['git_commit'].iloc[0]}",
    )


def _lines(rows: Sequence[dict[str, Any]], volume: str) -> dict[str, list[ScaleLine]]:
    """The lines by kind of scaling; those of several precisions are told apart."""
    several = len({row["precision"] for row in rows}) > 1
    points: dict[tuple[str, str, str], list[ScalePoint]] = {}
    for row in sorted(rows, key=lambda row: place_of_sharding(row["sharding"])):
        if row["volume"] == volume:
            points.setdefault((row["scaling"], row["sharding"], row["precision"]), []).append(_point(row))
    lines: dict[str, list[ScaleLine]] = {kind: [] for kind in KINDS_OF_SCALING}
    for (kind, sharding, precision), members in points.items():
        name = name_sharding(sharding) + (f", {precision}" if several else "")
        members.sort(key=lambda point: point.ranks)
        lines[kind].append(ScaleLine(sharding=sharding, name=name, points=members))
    return {kind: members for kind, members in lines.items() if members}


def _point(row: Mapping[str, Any]) -> ScalePoint:
    return ScalePoint(
        ranks=row["ranks"],
        samples=_banded(row, "predicted_samples_per_s"),
        efficiency=_banded(row, "predicted_efficiency"),
        exposed=row["predicted_exposed_s"] / row["predicted_step_s"],
        memory_gib=row["predicted_memory_gib"],
        limit_gib=row["memory_gib"],
    )


def _workload(table: pd.DataFrame) -> str:
    """Precision, batch of a rank under weak scaling, and length."""
    weak = table[table["scaling"] == WEAK]
    parts = [
        ", ".join(dict.fromkeys(table["precision"])),
        _span("batch of a rank", weak["micro_batch"]),
        _span("length", table["seq_len"]),
    ]
    return ", ".join(filter(None, parts))


def _span(name: str, values: pd.Series) -> str:
    """`length 128`, or `length 128 to 512`."""
    known = values.dropna()
    if known.empty:
        return ""
    ends = dict.fromkeys(f"{end:g}" for end in (known.min(), known.max()))
    return f"{name} {' to '.join(ends)}"


def _read_checks(path: Path) -> Iterator[CheckedPoint]:
    """The points of a file, memory in MiB; none if it is not there."""
    if not path.exists():
        return
    table = CHECKS.read(path)
    _refuse_others(path, table, "quantity", QUANTITIES)
    equal = table["measured"] == table["predicted"]  # also where both are 0, and the error has no number
    table["error"] = table["error"].mask(equal, 0.0)
    memory = table["quantity"] == MEMORY
    table.loc[memory, [*bounded("measured"), *bounded("predicted")]] /= MIB
    table.loc[memory, "unit"] = "MiB"
    for row in _rows(path, table, needed=("measured", "predicted", "error")):
        yield CheckedPoint(
            **{name: row[name] for name in (*CHECKS.texts, "ranks", "error")},
            measured=_banded(row, "measured"),
            predicted=_banded(row, "predicted"),
        )


def _read_published(path: Path) -> Iterator[PublishedRatio]:
    """The ratios of a file; none if it is not there."""
    if not path.exists():
        return
    for row in _rows(path, PUBLISHED.read(path), needed=("published_ratio", "predicted_ratio", "error")):
        yield PublishedRatio(
            **{name: row[name] for name in (*PUBLISHED.texts, "ranks", "error")},
            micro_batch=None if row["micro_batch"] is None else int(row["micro_batch"]),
            published=row["published_ratio"],
            predicted=_banded(row, "predicted_ratio"),
        )
