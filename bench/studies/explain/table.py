"""Where profiled steps' time goes: in each round a row for each operator of each backend."""

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
