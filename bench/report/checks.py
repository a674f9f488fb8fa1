"""The self-test's and the simulation's tables, made from results/selftest/ alone."""

import io
import math
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from bench.analysis.summary import summarise
from bench.analysis.throughput import log_ratios
from bench.errors import UserError
from bench.report import text
from bench.results import arithmetic
from bench.results.environment_cell import environment_entry, latest_environment

MOST_FALSE_ALARMS = 4
"""Of 40 A/A comparisons; at 5 % a perfect harness has more with a probability of 5 %."""


def verdicts(rows: pd.DataFrame, case: str, number: int, preset: str) -> pd.DataFrame:
    """What one comparison said about each backend, beside the truth: a line per backend.

    Without a speed-up the figures are blank and the status stands in place of a verdict.
    """
    first = rows.iloc[0]
    blocks = rows[rows["round"].notna()]
    names = (
        *("started_at", "git_commit", "model", "device", "world_size", "threads_per_rank", "micro_batch"),
        *("seq_len", "margin", "config_hash", "environment_hash"),
    )
    shared = {"case": case, "number": number, "preset": preset} | {name: first[name] for name in names}
    shared |= {
        "cpu": environment_entry(latest_environment(rows), "cpu", "model"),
        "block_seconds": float(blocks["seconds"].median()),
        "invalid_blocks": int((blocks["status"] == "invalid").sum()),
    }
    return pd.DataFrame(
        shared
        | {
            "backend": one.backend,
            "slowed_by": _slowed_by(rows, one.backend),
            "truth": _truth(rows, one.backend),
            "ratio": one.speedup.ratio if one.speedup else None,
            "low": one.speedup.low if one.speedup else None,
            "high": one.speedup.high if one.speedup else None,
            "launches": one.speedup.launches if one.speedup else None,
            "rounds": one.speedup.rounds if one.speedup else None,
            "verdict": one.verdict or one.status,
        }
        for one in summarise(rows)
        if not one.is_reference
    )


def rounds(rows: pd.DataFrame, case: str, number: int) -> pd.DataFrame:
    """The log ratio of samples/s of every round, less the truth: what is left is noise."""
    reference = str(rows["reference"].iloc[0])
    tables = []
    for backend in rows["backend"].unique():
        if backend != reference:
            logs = log_ratios(rows, backend, reference) - math.log(_truth(rows, backend))
            table = logs.rename("noise").reset_index()
            tables.append(table.assign(case=case, number=number, backend=backend))
    return pd.concat(tables)[["case", "number", "backend", "launch", "round", "noise"]]


def lines(table: pd.DataFrame) -> list[str]:
    """What the self-test found, a line for every question."""
    same = table[table["slowed_by"] == 0]
    alarms = _alarms(same)
    found = [
        f"A/A: {len(alarms)} of {len(same)} comparisons say faster or slower (allowed: {MOST_FALSE_ALARMS} "
        "of 40); "
        f"{len(_beyond(same))} beyond the margin by more than the interval explains; "
        f"the truth lies in {_covered(same)} of {len(same)} intervals"
    ]
    for (share, preset), group in table[table["slowed_by"] > 0].groupby(["slowed_by", "preset"]):
        hits = int((group["verdict"] == "slower").sum())
        found.append(
            f"A/B: slowed by {share:.0%}, {preset}: {hits} of {len(group)} comparisons say slower; "
            f"the truth lies in {_covered(group)} of {len(group)} intervals"
        )
    return found


def passed(table: pd.DataFrame) -> bool:
    """Whether the self-test is complete and as good as it must be."""
    same = table[table["slowed_by"] == 0]
    return (
        int(same["ratio"].notna().sum()) >= 40
        and len(_alarms(same)) <= MOST_FALSE_ALARMS
        and _beyond(same).empty
        and _slower(table, 0.05) >= 8
        and _slower(table, 0.02) >= 4
    )


def read(path: Path) -> pd.DataFrame:
    """One of the tables in results/selftest/.

    Raises:
        UserError: it is missing, breaks off, or lacks columns.
    """
    try:
        content = path.read_text(encoding="utf-8")
        table = pd.read_csv(io.StringIO(content))
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors, too
        raise _damaged(path, " ".join(str(error).split())) from None
    missing = [column for column in COLUMNS[path.stem] if column not in table]
    if missing:
        raise _damaged(path, f"it lacks {', '.join(missing)}")
    if not content.endswith("\n"):
        raise _damaged(path, "its last line breaks off")
    return table


COLUMNS = {
    "verdicts": (
        *("case", "number", "preset", "started_at", "git_commit", "model", "device", "world_size"),
        *("threads_per_rank", "micro_batch", "seq_len", "margin", "config_hash", "environment_hash", "cpu"),
        *(
            "block_seconds",
            "invalid_blocks",
            "backend",
            "slowed_by",
            "truth",
            "ratio",
            "low",
            "high",
            "verdict",
        ),
    ),
    "rounds": ("case", "number", "backend", "launch", "round", "noise"),
    "coverage": (
        *("noise", "preset", "launches", "rounds", "until", "coverage", "half_width", "mean_launches"),
    ),
    "estimators": ("noise", "preset", "middle", "coverage", "half_width"),
}
"""Of each table, the columns that are read."""


def _damaged(path: Path, what: str) -> UserError:
    return UserError(f"{path} is damaged: {what}; restore it with `git checkout`, or `make selftest`")


def markdown(folder: Path) -> str:
    """The page about results/selftest/.

    Raises:
        UserError: one of its tables is damaged.
    """
    table = read(folder / "verdicts.csv")
    comparisons = table.drop_duplicates(["case", "number"])
    shown = partial(text.distinct, table)
    parts = [
        "# Self-test",
        "",
        "Comparisons whose outcome is known (`make selftest`): what did the harness say?",
        "",
        *(f"- {text.escaped(line)}" for line in lines(table)),
        f"- measured {_span(table)} on {shown('device')} ({shown('cpu')}, {shown('world_size')} ranks × "
        f"{shown('threads_per_rank')} threads), commit {shown('git_commit')}",
        f"- {shown('model')}, batch {shown('micro_batch')}, length {shown('seq_len')}, blocks of "
        f"{_span_of_seconds(comparisons['block_seconds'])} s; "
        f"{int(comparisons['invalid_blocks'].sum())} blocks were contaminated and measured again",
        "",
        "| case | preset | backend | truth | ratio [95 %] | verdict |",
        "| --- | --- | --- | ---: | ---: | --- |",
        *(
            f"| {row.case} {row.number} | {row.preset} | {row.backend} | {row.truth:.3f} | "
            f"{row.ratio:.3f} [{row.low:.3f}, {row.high:.3f}] | {row.verdict} |"
            for row in table.itertuples()
        ),
        "",
    ]
    for name, section in (("coverage", _coverage), ("estimators", _estimators)):
        if (folder / f"{name}.csv").exists():
            parts += section(read(folder / f"{name}.csv"))
    return "\n".join(parts)


def _coverage(table: pd.DataFrame) -> list[str]:
    return [
        "## Coverage of the 95 % interval",
        "",
        "Simulated comparisons (`make coverage`): how often does the interval contain the truth?",
        "",
        "| noise | preset | launches × rounds | until | coverage | median half-width | launches, mean |",
        "| --- | --- | --- | --- | ---: | ---: | ---: |",
        *(
            f"| {row.noise} | {row.preset} | {row.launches} × {row.rounds} | {_until(row.until)} | "
            f"{row.coverage:.1%} | ± {row.half_width:.2%} | {row.mean_launches:.1f} |"
            for row in table.itertuples()
        ),
        "",
    ]


def _estimators(table: pd.DataFrame) -> list[str]:
    """Coverage and median half-width of the interval over launches, for several middles of a launch."""
    names = list(dict.fromkeys(table["middle"]))
    cells = {
        (row.noise, row.preset, row.middle): f"{row.coverage:.1%}, ± {row.half_width:.2%}"
        for row in table.itertuples()
    }
    keys = dict.fromkeys((noise, preset) for noise, preset, _ in cells)
    return [
        "## Estimators",
        "",
        "Which middle of a launch's rounds gives the narrowest interval that still covers? Coverage and "
        "median half-width under each; the harness uses the midmean.",
        "",
        f"| noise | preset | {' | '.join(names)} |",
        f"| --- | --- | {' | '.join(['---:'] * len(names))} |",
        *(
            f"| {noise} | {preset} | {' | '.join(cells[noise, preset, name] for name in names)} |"
            for noise, preset in keys
        ),
        "",
    ]


def _until(half_width: Any) -> str:
    return text.MISSING if math.isnan(half_width) else f"± {half_width:.2%}"


def _alarms(same: pd.DataFrame) -> pd.DataFrame:
    return same[same["verdict"].isin(["faster", "slower"])]


def _beyond(same: pd.DataFrame) -> pd.DataFrame:
    """Intervals that lie wholly outside the margin around 1."""
    return same[(same["low"] > 1 + same["margin"]) | (same["high"] < 1 - same["margin"])]


def _covered(table: pd.DataFrame) -> int:
    return int(((table["low"] <= table["truth"]) & (table["truth"] <= table["high"])).sum())


def _slower(table: pd.DataFrame, share: float) -> int:
    return int(((table["slowed_by"] == share) & (table["verdict"] == "slower")).sum())


def _span(table: pd.DataFrame) -> str:
    days = sorted({moment[:10] for moment in table["started_at"]})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _span_of_seconds(values: pd.Series) -> str:
    """`0.15`, or `0.15 to 0.86` where the cases differ."""
    ends = dict.fromkeys((f"{values.min():.2f}", f"{values.max():.2f}"))
    return " to ".join(ends)


def _slowed_by(rows: pd.DataFrame, backend: str) -> float:
    return float(rows[rows["backend"] == backend]["slowed_by"].iloc[0])


def _truth(rows: pd.DataFrame, backend: str) -> float:
    """The true speed-up of a backend that differs from the reference in `slowed_by` alone."""
    return arithmetic.slowed_speedup(_slowed_by(rows, backend))
