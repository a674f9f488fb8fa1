"""What a page says of checkpoints."""

from collections.abc import Sequence
from typing import Any

from bench.report.content.blocks import Block, Column, explained_table, text_column
from bench.report.words.formatting import number, one_line, small

Row = dict[str, Any]  # of the study's table

COLUMNS: list[Column[Row]] = [
    text_column("backend", lambda row: one_line(row["backend"])),
    text_column("status", lambda row: one_line(": ".join(filter(None, [row["status"], row["message"]])))),
    Column("on disk MiB", lambda row: number(row["checkpoint_mib"])),
    Column("save s", lambda row: number(row["save_s"], 3)),
    Column("load s", lambda row: number(row["load_s"], 3)),
    Column("difference after loading", lambda row: small(row["difference"])),
]
EXPLANATION = (
    "The state of the training after a few steps without dropout: weights, optimizer's state, loss scaling "
    "and generators. Saving ends when all files are on the disk with their sums. A fresh process loads it; "
    "the difference is the largest relative one of its next losses and gradient norms from those of the "
    "process that saved and went on."
)


def make_blocks(rows: Sequence[Row]) -> list[Block]:
    """The section of a comparison that has such a table."""
    return explained_table("Checkpoints", rows, COLUMNS, EXPLANATION)
