"""The self-test, judged: what it found in comparisons whose outcome is known, and whether it passes."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from bench.machine.identity import name_processor
from bench.results.environment_cell import latest_environment
from bench.statistics.summary import summarise

MOST_FALSE_ALARMS = 4  # in 40 A/A comparisons; at 5 % a perfect harness has more with a probability of 5 %

OF_A_COMPARISON = (
    *("started_at", "git_commit", "model", "device", "world_size", "threads_per_rank", "micro_batch"),
    *("seq_len", "margin", "config_hash", "environment_hash"),
)
"""The columns of a table of verdicts that are those of the results file."""

OF_A_ROUND = ("case", "number", "backend", "launch", "round", "noise")
"""The columns of a table of rounds."""

SPEEDUP = ("ratio", "low", "high", "launches", "rounds")  # what a table of verdicts holds of a speed-up

NEEDED_HITS = {0.05: 8, 0.02: 4}
"""By planted slow-down: how many comparisons must say `slower`, of 10 quick and of 5 thorough ones."""


def split_launches(rows: pd.DataFrame, parts: int) -> list[pd.DataFrame]:
    """The rows of one comparison as those of several with fewer launches each, in their order."""
    launches = sorted(rows["launch"].unique())
    each = len(launches) // parts
    return [rows[rows["launch"].isin(launches[part * each : (part + 1) * each])] for part in range(parts)]


def verdict_table(rows: pd.DataFrame, case: str, number: int, preset: str) -> pd.DataFrame:
    """What a comparison said of each backend, beside the truth; its status where it has no verdict."""
    first = rows.iloc[0]
    blocks = rows[rows["round"].notna()]
    slowed_by = rows.groupby("backend")["slowed_by"].first()
    shared = {
        **{"case": case, "number": number, "preset": preset},
        **{name: first[name] for name in OF_A_COMPARISON},
        "cpu": name_processor(latest_environment(rows)),
        "block_seconds": float(blocks["seconds"].median()),
        "invalid_blocks": int((blocks["status"] == "invalid").sum()),
    }
    return pd.DataFrame(
        {
            **shared,
            "backend": summary.backend,
            "slowed_by": float(slowed_by[summary.backend]),
            "truth": 1 / (1 + float(slowed_by[summary.backend])),
            **{name: getattr(summary.speedup, name, None) for name in SPEEDUP},
            "verdict": summary.verdict or summary.status,
        }
        for summary in summarise(rows)
        if not summary.is_reference
    )


def noise_table(rows: pd.DataFrame, case: str, number: int) -> pd.DataFrame:
    """The log ratio of samples/s of every round, less the truth: what is left is noise."""
    valid, place = rows[rows["status"] == "ok"], ["launch", "round"]
    is_base = valid["backend"] == valid["reference"]
    base = valid.loc[is_base, [*place, "samples_per_s"]]
    both = valid[~is_base].merge(base, on=place, suffixes=("", "_of_base"))
    logs = np.log(both["samples_per_s"]) - np.log(both["samples_per_s_of_base"])
    table = both.assign(case=case, number=number, noise=logs + np.log1p(both["slowed_by"]))
    return table[list(OF_A_ROUND)].sort_values("backend", kind="stable")


def passed(table: pd.DataFrame, planted: Iterable[float]) -> bool:
    """Whether the self-test is complete, found no more errors than it may, and the slow-downs `planted`."""
    same = table[table["slowed_by"] == 0]
    return (
        int(same["ratio"].notna().sum()) >= 40
        and len(false_alarms(same)) <= MOST_FALSE_ALARMS
        and beyond_the_margin(same).empty
        and all(
            int(((table["slowed_by"] == share) & (table["verdict"] == "slower")).sum()) >= NEEDED_HITS[share]
            for share in planted
        )
    )


def false_alarms(same: pd.DataFrame) -> pd.DataFrame:
    """The comparisons of equal backends that are said to be faster or slower."""
    return same[same["verdict"].isin(["faster", "slower"])]


def beyond_the_margin(same: pd.DataFrame) -> pd.DataFrame:
    """Intervals that lie wholly outside the margin around 1."""
    return same[(same["low"] > 1 + same["margin"]) | (same["high"] < 1 - same["margin"])]


def count_covered(table: pd.DataFrame) -> int:
    """How many intervals contain the truth."""
    return int(((table["low"] <= table["truth"]) & (table["truth"] <= table["high"])).sum())


def summary_lines(verdicts: pd.DataFrame) -> list[str]:
    """What the self-test found, a line for every question."""
    same = verdicts[verdicts["slowed_by"] == 0]
    lines = [
        f"A/A: {len(false_alarms(same))} of {len(same)} comparisons say faster or slower (allowed: "
        f"{MOST_FALSE_ALARMS} of 40); "
        f"{len(beyond_the_margin(same))} beyond the margin by more than the interval explains; "
        f"the truth lies in {count_covered(same)} of {len(same)} intervals"
    ]
    for (share, preset), group in verdicts[verdicts["slowed_by"] > 0].groupby(["slowed_by", "preset"]):
        hits = int((group["verdict"] == "slower").sum())
        lines.append(
            f"A/B: slowed by {share:.0%}, {preset}: {hits} of {len(group)} comparisons say slower; "
            f"the truth lies in {count_covered(group)} of {len(group)} intervals"
        )
    return lines
