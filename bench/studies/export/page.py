"""What a page says of exported models."""

from collections.abc import Sequence
from typing import Any

from bench.report.content.blocks import Block, Column, explained_table, text_column
from bench.report.words.formatting import number, one_line, small

Row = dict[str, Any]  # of the study's table


def _latency(row: Row) -> str:
    middle, low, high = (number(row[f"inference_{end}ms"], 3) for end in ("", "low_", "high_"))
    return f"{middle} [{low}, {high}]"


COLUMNS: list[Column[Row]] = [
    text_column("backend", lambda row: one_line(row["backend"])),
    text_column("status", lambda row: one_line(": ".join(filter(None, [row["status"], row["message"]])))),
    Column("exported MiB", lambda row: number(row["exported_mib"])),
    Column("largest output", lambda row: number(row["output_scale"])),
    Column("difference from PyTorch", lambda row: small(row["difference"])),
    Column("difference from the reference's", lambda row: small(row["difference_from_reference"])),
    Column("inference ms (median, 95 % interval)", _latency),
]
EXPLANATION = (
    "After a few steps without dropout, from the same weights and batches, each model is exported to ONNX, "
    "and runs in ONNX Runtime on one micro-batch. Differences are the largest absolute ones between outputs; "
    "all models take turns at inference."
)


def make_blocks(rows: Sequence[Row]) -> list[Block]:
    """The section of a comparison that has such a table."""
    return explained_table("After training", rows, COLUMNS, EXPLANATION)
