"""Held-out losses on the way to a target: a row per backend, launch and evaluation."""

from bench.results.columns import REAL, WHOLE
from bench.results.side_files import SideFile

TABLE = SideFile(
    kind="converge",
    what="held-out losses",
    columns={
        "launch": WHOLE,
        "seed": WHOLE,  # of the launch: of the order of the data, and of dropout
        "evaluation": WHOLE,  # from 0, which is before the first step
        "steps": WHOLE,  # trained so far, the first step and warm-up included
        "seconds": REAL,  # of the timed blocks so far; slowest rank
        "seconds_with_start": REAL,  # the same with set-up, first step and warm-up
        "disturbed": WHOLE,  # 1 or 0: the block before it was contaminated
        "held_out_loss": REAL,  # mean over all tokens to predict, by PyTorch
        "target_loss": REAL,  # that was to be reached
        "margin_loss": REAL,  # within which final losses are equivalent
    },
)
