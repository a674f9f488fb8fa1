"""How figures and foreign text are written in tables, captions and comparisons."""

import html
import re
from collections import Counter

import numpy as np
import pandas as pd
from pandas.api.types import is_integer_dtype

from bench.analysis.intervals import STOPPED_CONFIDENCE, Speedup
from bench.results.column_arrays import ColumnArrays
from bench.results.environment_cell import environment_entry, gpu_names, latest_environment, parse_environment

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


def share(value: float | None) -> str:
    """A share with two significant digits, such as `38 %`."""
    return MISSING if value is None else f"{number(100 * value, 2)} %"


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
    values = ColumnArrays(rows).distinct(column)
    if is_integer_dtype(rows[column]):
        values = [int(value) for value in values]
    return "/".join(str(value) for value in values if str(value))


def at_largest(rows: pd.DataFrame) -> bool:
    """Whether each backend was measured at its own largest micro-batch."""
    return "max" in set(rows["batch_rule"])


def memory_limit(rows: pd.DataFrame) -> str:
    """`memory limit 4 GiB per backend`; empty without one."""
    limits = rows["memory_limit_gib"].dropna().unique()
    return f"memory limit {'/'.join(f'{limit:g}' for limit in limits)} GiB per backend" if len(limits) else ""


def largest_batches(rows: pd.DataFrame) -> str:
    """`pytorch 48, ortmodule 64`: the micro-batch of every backend that has a valid block."""
    valid = rows[rows["status"] == "ok"]
    sizes = valid.groupby("backend", sort=False)["micro_batch"].unique()
    return ", ".join(f"{one_line(str(name))} {'/'.join(map(str, sizes[name]))}" for name in sizes.index)


def largest_batch(rows: pd.DataFrame) -> str:
    """The heading of what must not be mixed with results at equal batch."""
    return ", ".join(filter(None, ["each backend at its largest batch", memory_limit(rows)]))


def _batch(rows: pd.DataFrame) -> str:
    """Samples of a step: of all backends, or of each at its own largest micro-batch."""
    micro_batch, grad_accum = distinct(rows, "micro_batch"), distinct(rows, "grad_accum")
    ranks = plural(distinct(rows, "world_size"), "rank")
    spread = f"accumulation {grad_accum} {TIMES} {ranks}"
    if at_largest(rows):
        sizes = largest_batches(rows)
        return f"each backend at its largest micro-batch{sizes and f' ({sizes})'} {TIMES} {spread}"
    return f"batch {micro_batch} {TIMES} {spread} = {distinct(rows, 'global_batch')}"


def length(rows: pd.DataFrame) -> str:
    """`length 128`; empty where samples have none."""
    found = distinct(rows, "seq_len")
    return f"length {found}" if found else ""


def particulars(rows: pd.DataFrame) -> list[str]:
    """What is out of the ordinary: a shrunk model, adapters, recomputed activations, real data."""
    known = rows[["trainable_parameters", "parameters"]].dropna()  # nobody knows them if no model was built
    adapters = known[known["trainable_parameters"] < known["parameters"]]["trainable_parameters"]
    source, lengths = distinct(rows, "data"), distinct(rows, "lengths")
    found = [
        "" if distinct(rows, "size") == "published" else distinct(rows, "size"),
        "" if adapters.empty else f"adapters only ({int(adapters.max()):,} parameters trained)",
        "checkpointing" if distinct(rows, "checkpointing") == "1" else "",
        source if source != "synthetic" else "" if lengths == "uniform" else f"lengths like {lengths}",
    ]
    return list(filter(None, found))


def workload(rows: pd.DataFrame) -> str:
    """Model, task and everything that fixes the work of a step."""
    parameters = rows["parameters"].dropna()
    padding = rows["padding_share"].dropna()
    parts = [
        f"{distinct(rows, 'model')} ({distinct(rows, 'task')})",
        "" if parameters.empty else f"{int(parameters.max()):,} parameters",
        _batch(rows),
        memory_limit(rows),
        length(rows),
        "" if padding.empty else f"padding share {padding.max():.2f}",
        distinct(rows, "precision"),
        f"{distinct(rows, 'attention')} attention",
        *particulars(rows),
    ]
    return ", ".join(filter(None, parts))


def hardware(rows: pd.DataFrame) -> str:
    """Device, ranks and threads."""
    environment = latest_environment(rows)
    gpus = gpu_names(environment)
    names = [f"{gpus.count(name)} {TIMES} {name}" for name in dict.fromkeys(gpus)]
    cores = environment_entry(environment, "cpu", "cores")
    cpu = environment_entry(environment, "cpu", "model") or "CPU"
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
    cells = ColumnArrays(rows)
    blocks = cells.where(~np.isnan(cells["round"]))
    rounds = Counter(launch for launch, _ in set(zip(blocks["launch"], blocks["round"], strict=True)))
    if len(set(rounds.values())) == 1:
        return f"{plural(len(rounds), 'launch', 'es')} {TIMES} {plural(max(rounds.values()), 'round')}"
    return f"{plural(len(rounds), 'launch', 'es')}, {plural(rounds.total(), 'round')} in all"


def versions(rows: pd.DataFrame) -> str:
    """The packages that decide the result, the stack, the commit and the date."""
    decisive = re.compile(r"torch|transformers|onnxruntime-training.*|deepspeed")
    parts = []
    latest = dict(zip(rows["stack"], rows["environment"], strict=True))
    for stack, cell in latest.items():
        packages = environment_entry(parse_environment(cell), "packages") or {}
        parts += [f"{name} {packages[name]}" for name in sorted(packages) if decisive.fullmatch(name)]
        parts.append(f"stack {stack}")
    commits = re.sub(r"\b([0-9a-f]{12})[0-9a-f]+", r"\1", distinct(rows, "git_commit"))
    dates = sorted({moment[:10] for moment in rows["started_at"]})
    return ", ".join([*parts, f"commit {commits}", "/".join(dates)])


def short_workload(rows: pd.DataFrame) -> str:
    """Task, batch, length and number format: what tells the comparisons of one model apart."""
    accumulation = distinct(rows, "grad_accum")
    micro_batch = "largest batch" if at_largest(rows) else f"batch {distinct(rows, 'micro_batch')}"
    layout = f"{micro_batch} {TIMES} {distinct(rows, 'world_size')}"
    if accumulation != "1":
        layout += f" {TIMES} {accumulation} accumulated"
    attention = distinct(rows, "attention")
    parts = [distinct(rows, "task"), layout, length(rows)]
    parts += [distinct(rows, "precision"), *([f"{attention} attention"] if attention != "eager" else [])]
    parts += particulars(rows)
    parts.append("" if at_largest(rows) else memory_limit(rows))  # the heading of the former tells it
    return ", ".join(filter(None, parts))
