"""How figures and foreign text are written in tables, captions and comparisons."""

import html
import re
from collections import Counter

import numpy as np
import pandas as pd
from pandas.api.types import is_integer_dtype

from bench import results
from bench.cells import Cells
from bench.stats import STOPPED_CONFIDENCE, Speedup

TIMES = "\N{MULTIPLICATION SIGN}"
MISSING = "\N{EN DASH}"

METHOD = (
    "Speed-up: the ratio of samples/s within each round, midmean of the logarithms over the rounds of a "
    "launch, then geometric mean over launches; 95 % confidence interval: Student's t over the launches."
)


LEFT_ALONE = "threads or allocator were left alone: its speed-ups are no results (README, Fairness)"
"""Of a comparison that does not hold what a fair one holds."""


def stopped(rows: pd.DataFrame) -> str:
    """What `measure.until` means for the interval; empty without it."""
    goals = rows["until"].dropna()
    if goals.empty:
        return ""
    return (
        f" Launches were added until every interval was within ± {goals.max():.2%}; such intervals use the "
        f"{STOPPED_CONFIDENCE:.0%} quantile."
    )


def number(value: float | None, digits: int = 4) -> str:
    """A figure with about so many significant digits; whole digits are never rounded away."""
    if value is None:
        return MISSING
    decimals = max(0, digits - len(str(int(abs(value))))) if abs(value) >= 1 else digits - 1
    return f"{value:,.{decimals}f}"


def small(value: float | None) -> str:
    """A figure that may be very small, such as a loss difference."""
    return MISSING if value is None else f"{value:.2g}"


def ratio(value: float) -> str:
    """A ratio with its sign, such as 1.324 and the multiplication sign."""
    return f"{value:.3f}{TIMES}"


def interval(speedup: Speedup) -> str:
    """`[1.281, 1.369]`, or `no interval`."""
    if speedup.low is None or speedup.high is None:
        return "no interval"
    return f"[{speedup.low:.3f}, {speedup.high:.3f}]"


def plural(count: object, noun: str, ending: str = "s") -> str:
    """`1 launch`, `3 launches`."""
    return f"{count} {noun}{'' if str(count) == '1' else ending}"


def one_line(text: str) -> str:
    """Foreign text on one line, without control characters (a log may hold colour codes)."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def escaped(text: str) -> str:
    """Foreign text for Markdown, inside a table or out of it: shown as it is, never interpreted."""
    text = html.escape(one_line(text), quote=False)
    text = re.sub(r"[\\`*|~$]|\](?=[(\[:])", r"\\\g<0>", text)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)  # inside a word it means nothing


def distinct(rows: pd.DataFrame, column: str) -> str:
    """The column's value; all of them, in order, if there are several; empty if none."""
    values = Cells(rows).distinct(column)
    if is_integer_dtype(rows[column]):
        values = [int(value) for value in values]
    return "/".join(str(value) for value in values if str(value))


def length(rows: pd.DataFrame) -> str:
    """`length 128`; empty where samples have none."""
    found = distinct(rows, "seq_len")
    return f"length {found}" if found else ""


def workload(rows: pd.DataFrame) -> str:
    """Model, task and everything that fixes the work of a step."""
    micro_batch, grad_accum = distinct(rows, "micro_batch"), distinct(rows, "grad_accum")
    ranks, global_batch = (
        plural(distinct(rows, "world_size"), "rank"),
        distinct(rows, "global_batch"),
    )
    parameters = rows["parameters"].dropna()
    padding = rows["padding_share"].dropna()
    parts = [
        f"{distinct(rows, 'model')} ({distinct(rows, 'task')})",
        "" if parameters.empty else f"{int(parameters.max()):,} parameters",
        f"batch {micro_batch} {TIMES} accumulation {grad_accum} {TIMES} {ranks} = {global_batch}",
        length(rows),
        "" if padding.empty else f"padding share {padding.max():.2f}",
        distinct(rows, "precision"),
        f"{distinct(rows, 'attention')} attention",
    ]
    return ", ".join(filter(None, parts))


def hardware(rows: pd.DataFrame) -> str:
    """Device, ranks and threads."""
    environment = results.environment(rows)
    gpus = results.gpu_names(environment)
    names = [f"{gpus.count(name)} {TIMES} {name}" for name in dict.fromkeys(gpus)]
    cores = results.entry(environment, "cpu", "cores")
    cpu = results.entry(environment, "cpu", "model") or "CPU"
    if distinct(rows, "device") == "cpu" or not names:
        names = [f"{cpu} ({cores} cores)" if cores else str(cpu)]
    ranks = plural(distinct(rows, "world_size"), "rank")
    threads = plural(distinct(rows, "threads_per_rank"), "thread")
    if (rows["cores_per_rank"] > rows["threads_per_rank"]).any():
        threads += f" not held to its core but free to use {distinct(rows, 'cores_per_rank')}"
    return (
        f"{distinct(rows, 'device')}: {', '.join(names)}, {ranks} {TIMES} {threads}, "
        f"{distinct(rows, 'allocator')} allocator"
    )


def extent(rows: pd.DataFrame) -> str:
    """How many launches and rounds were measured."""
    cells = Cells(rows)
    blocks = cells.where(~np.isnan(cells["round"]))
    rounds = Counter(launch for launch, _ in set(zip(blocks["launch"], blocks["round"], strict=True)))
    if len(set(rounds.values())) == 1:
        return f"{plural(len(rounds), 'launch', 'es')} {TIMES} {plural(max(rounds.values()), 'round')}"
    return f"{plural(len(rounds), 'launch', 'es')}, {plural(rounds.total(), 'round')} in all"


def versions(rows: pd.DataFrame) -> str:
    """The packages that decide the result, the stack, the commit and the date."""
    packages = results.entry(results.environment(rows), "packages") or {}
    decisive = re.compile(r"torch|transformers|onnxruntime-training.*|deepspeed")
    parts = [f"{name} {packages[name]}" for name in sorted(packages) if decisive.fullmatch(name)]
    commits = re.sub(r"\b([0-9a-f]{12})[0-9a-f]+", r"\1", distinct(rows, "git_commit"))
    dates = sorted({moment[:10] for moment in rows["started_at"]})
    return ", ".join([*parts, f"stack {distinct(rows, 'stack')}", f"commit {commits}", "/".join(dates)])


def short_workload(rows: pd.DataFrame) -> str:
    """Task, batch, length and number format: what tells the comparisons of one model apart."""
    accumulation = distinct(rows, "grad_accum")
    layout = f"{distinct(rows, 'micro_batch')} {TIMES} {distinct(rows, 'world_size')}"
    if accumulation != "1":
        layout += f" {TIMES} {accumulation} accumulated"
    attention = distinct(rows, "attention")
    parts = [distinct(rows, "task"), f"batch {layout}", length(rows)]
    parts += [distinct(rows, "precision"), *([f"{attention} attention"] if attention != "eager" else [])]
    return ", ".join(filter(None, parts))
