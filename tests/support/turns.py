"""How narrow is an interval after 10 minutes on a GPU, in turns and one after the other? Simulated.

    python -m tests.support.turns results/MACHINE/bench/FILE.csv

draws with replacement from a file whose two first backends ran one after the other: how far they were apart
in a launch, and how far a round was from its launch. How much of the former belongs to the moment, so that it
cancels between blocks seconds apart, such a file does not tell: between none and all of it.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from bench.results import csv_files
from bench.statistics import intervals

BUDGET, ROUNDS, COMPARISONS = 600.0, 8, 2000
BLOCK, BESIDE = 2.0, 0.35  # seconds of a block, and of the untimed steps and requests beside it
PREHEAT = 10.0  # of each launch's groups that take turns together; of each where they do not


def simulate(path: Path, random: np.random.Generator) -> pd.DataFrame:
    """A row for each schedule: how many launches 10 minutes have, and the median half-width."""
    rows = csv_files.read(path)
    rows = rows[(rows["status"] == "ok") & rows["round"].notna()]
    names = list(dict.fromkeys(rows["backend"]))[:2]
    table = np.log(
        rows.pivot(index=["launch", "round"], columns="backend", values="samples_per_s")[names]
    ).dropna()
    launches = table.groupby("launch").transform("mean")
    apart = launches.groupby("launch").first().diff(axis=1)[names[1]].to_numpy()
    # Rounds are uncorrelated (lag 1: 0.04), so that a longer block averages what shorter ones show.
    noise = (table - launches).to_numpy() * np.sqrt(rows["seconds"].median() / BLOCK)
    phases = (
        rows.groupby(["backend", "launch"])[["import_s", "setup_s", "first_step_s", "warm_up_s"]]
        .first()
        .median()
    )
    imports, blocks = phases["import_s"], ROUNDS * (BLOCK + BESIDE)
    build = phases.sum() - 2 * imports  # setup_s contains the imports
    alone = 2 * (imports + build + PREHEAT + blocks)
    together = imports + PREHEAT + 2 * (build + blocks)
    found = []
    for schedule, seconds, share in (
        ("one after the other", alone, 1.0),
        ("in turns, no more cancels", together, 1.0),
        ("in turns, all of it cancels", together, 0.0),
    ):
        shape = (COMPARISONS, int(BUDGET / seconds))
        rounds = [random.choice(noise[:, side], (*shape, ROUNDS)) for side in (0, 1)]
        middles = np.apply_along_axis(intervals.midmean, 2, rounds[1] - rounds[0])
        middles += share * random.choice(apart, shape)
        halves = [np.expm1(intervals.half_interval(each, stopped_by_width=False)) for each in middles]
        found.append((schedule, round(seconds), shape[1], f"± {np.median(halves):.1%}"))
    return pd.DataFrame(found, columns=["schedule", "seconds of a launch", "launches", "half-width"])


if __name__ == "__main__":
    print(simulate(Path(sys.argv[1]), np.random.default_rng(0)).to_string(index=False))
