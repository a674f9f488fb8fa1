"""The collectives of a step, and of a ladder of sizes: a row for each of them, and each launch."""

from bench.results.columns import REAL, TEXT, WHOLE
from bench.results.side_files import SideFile

TABLE = SideFile(
    kind="collectives",
    what="collectives",
    columns={
        "status": TEXT,  # ok, or why the rest is missing
        "message": TEXT,
        "name": TEXT,  # the kind of collective
        "launch": WHOLE,
        "ranks": WHOLE,
        "calls": WHOLE,  # in one step; 0: it was only timed
        "whole_bytes": WHOLE,  # of its tensor, as in results.collectives
        "element_bytes": WHOLE,
        "seconds": REAL,  # of one call: median over repetitions, slowest rank
        "low_s": REAL,  # of that median's 95 % interval
        "high_s": REAL,
        "cpu_s": REAL,  # seconds of the processor; mean over ranks
    },
    blanks=True,
)
