"""The collectives of a step: a row for each of them."""

from bench.results.columns import TEXT, WHOLE
from bench.results.side_files import SideFile

TABLE = SideFile(
    kind="collectives",
    what="collectives",
    columns={
        "status": TEXT,  # ok, or why the other cells are blank
        "message": TEXT,
        "name": TEXT,  # the kind of collective
        "launch": WHOLE,
        "ranks": WHOLE,
        "calls": WHOLE,  # in one step
        "whole_bytes": WHOLE,  # of its tensor, as in `sent.Collective`
        "element_bytes": WHOLE,
    },
    blanks=True,
)
