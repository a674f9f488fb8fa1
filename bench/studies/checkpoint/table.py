"""What becomes of saved training states: a row per backend."""

from bench.results.columns import REAL, TEXT
from bench.results.side_files import SideFile

TABLE = SideFile(
    kind="checkpoint",
    what="what became of checkpoints",
    columns={
        "status": TEXT,
        "message": TEXT,
        "steps": REAL,  # that were taken before the save
        "save_s": REAL,
        "load_s": REAL,
        "checkpoint_mib": REAL,  # on disk, all ranks
        "difference": REAL,  # the largest relative one of losses and norms, from those without loading
    },
    blanks=True,
)
