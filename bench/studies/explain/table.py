"""Where a step's time goes: a row for each operator of each backend in each round.

The seconds of a round add up to its profiled step. They are of an untimed run under a profiler, so that they
explain timed steps and are never mixed with them.
"""

from bench.results.columns import REAL, TEXT
from bench.results.side_files import SideFile

TABLE = SideFile(
    kind="breakdown",
    what="a breakdown",
    columns={
        "round": REAL,
        "steps": REAL,
        "profiled_step_s": REAL,
        "kind": TEXT,  # of work
        "library": TEXT,
        "part": TEXT,
        "operator": TEXT,
        "calls_per_step": REAL,
        "seconds_per_step": REAL,
    },
)
