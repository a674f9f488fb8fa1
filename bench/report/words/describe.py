"""What a comparison measured, in words made from its rows: workload, hardware, versions, launches."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bench.config.choices import USER_TASK
from bench.errors import plural
from bench.machine.identity import number_words
from bench.report.words.formatting import TIMES, one_line
from bench.results.column_arrays import ColumnArrays
from bench.results.environment_cell import environment_entry, gpu_names, latest_environment, parse_environment
from bench.statistics.intervals import STOPPED_CONFIDENCE
from bench.statistics.table_values import at_largest_batch, distinct_text, launches_were_added, left_alone


def of_reference(rows: pd.DataFrame) -> pd.DataFrame:
    """The reference's rows, since other backends may have other settings; without any, all rows."""
    of_its_own = rows[rows["backend"] == rows["reference"]]
    return rows if of_its_own.empty else of_its_own


def reference_value(rows: pd.DataFrame, column: str) -> str:
    """The value of the reference, and of every backend without its own value."""
    if rows[column].nunique() > 1:  # rarely; choosing rows of a hundred columns takes 2 ms
        rows = of_reference(rows)
    return distinct_text(rows, column)


def _memory_limit(rows: pd.DataFrame) -> str:
    """`memory limit 4 GiB per backend`; empty without one."""
    limits = rows["memory_limit_gib"].dropna().unique()
    return f"memory limit {'/'.join(f'{limit:g}' for limit in limits)} GiB per backend" if len(limits) else ""


def micro_batches(rows: pd.DataFrame) -> str:
    """`pytorch 48, ortmodule 64`: the micro-batch of every backend that has a valid block."""
    valid = rows[rows["status"] == "ok"]
    sizes = valid.groupby("backend", sort=False)["micro_batch"].unique()
    return ", ".join(f"{one_line(str(name))} {'/'.join(map(str, sizes[name]))}" for name in sizes.index)


def largest_batch_rule(rows: pd.DataFrame) -> str:
    """Words that each backend has its own largest batch, and under which memory limit."""
    return ", ".join(filter(None, ["each backend at its largest batch", _memory_limit(rows)]))


def _batch(rows: pd.DataFrame) -> str:
    """Samples of a step: of all backends, or of each at its own largest micro-batch."""
    ranks = plural(distinct_text(rows, "world_size"), "rank")
    spread = f"{TIMES} accumulation {reference_value(rows, 'grad_accum')} {TIMES} {ranks}"
    if at_largest_batch(rows):
        sizes = micro_batches(rows)
        return f"each backend at its largest micro-batch{sizes and f' ({sizes})'} {spread}"
    return f"batch {reference_value(rows, 'micro_batch')} {spread} = {distinct_text(rows, 'global_batch')}"


def _length(rows: pd.DataFrame) -> str:
    """`length 128`; empty where samples have none."""
    seq_len = distinct_text(rows, "seq_len")
    return f"length {seq_len}" if seq_len else ""


def _particulars(rows: pd.DataFrame) -> dict[str, str]:
    """Settings beside the defaults: a shrunk model, frozen weights, recomputed activations, real data."""
    known = rows[["trainable_parameters", "parameters"]].dropna()  # blank if no model was built
    part = known[known["trainable_parameters"] < known["parameters"]]["trainable_parameters"]
    size, source, lengths = (distinct_text(rows, column) for column in ("size", "data", "lengths"))
    synthetic = "no padding" if lengths == "full" else ""
    return {
        "size": "" if size == "published" else size,
        "trained": "" if part.empty else f"{int(part.max()):,} parameters trained, the others frozen",
        "checkpointing": "checkpointing" if reference_value(rows, "checkpointing") == "1" else "",
        "data": synthetic if source == "synthetic" else source,
    }


def workload(rows: pd.DataFrame) -> str:
    """Model, task and everything that fixes the work of a step."""
    parameters, padding = rows["parameters"].dropna(), rows["padding_share"].dropna()
    parts = [
        f"{distinct_text(rows, 'model')} ({distinct_text(rows, 'task')})",
        "" if parameters.empty else f"{int(parameters.max()):,} parameters",
        _batch(rows),
        _memory_limit(rows),
        _length(rows),
        "" if padding.empty else f"padding share {padding.max():.2f}",
        reference_value(rows, "precision"),
        _attention(rows),
        *_particulars(rows).values(),
    ]
    return ", ".join(filter(None, parts))


def _attention(rows: pd.DataFrame) -> str:
    """`eager attention`; empty for a user's module, whose attention is no setting."""
    if distinct_text(rows, "task") == USER_TASK:
        return "attention left to the module"
    attention = distinct_text(rows, "attention")  # empty if the rank that chooses it built no model
    return attention and f"{attention} attention"


def short_processor(environment: Mapping[str, Any]) -> str:
    """`AMD EPYC (family 25, model 1)`; the name alone where the rest is not recorded."""
    cpu = environment.get("cpu") or {}
    name = re.sub(r"\((R|TM)\)| Processor\b", "", str(cpu.get("model") or "CPU"))
    numbers = number_words({**cpu, "stepping": None})
    return f"{name} ({', '.join(numbers)})" if numbers else name


def short_machine(rows: pd.DataFrame) -> str:
    """`AMD EPYC (family 25, model 1), 2 cores, 2 ranks`: where it ran, in the words of a sentence."""
    ranks = plural(distinct_text(rows, "world_size"), "rank")
    if gpus := _gpus(rows):
        return ", ".join([*gpus, ranks])
    environment, threads = latest_environment(rows), distinct_text(rows, "threads_per_rank")
    if threads != "1":
        ranks += f" {TIMES} {plural(threads, 'thread')}"
    cores = environment_entry(environment, "cpu", "cores")
    return ", ".join([short_processor(environment), *([plural(cores, "core")] if cores else []), ranks])


def _gpus(rows: pd.DataFrame) -> list[str]:
    """The GPUs as `8 × A100`; nothing on a CPU, and where they are not known."""
    names = [] if distinct_text(rows, "device") == "cpu" else gpu_names(latest_environment(rows))
    return [f"{names.count(name)} {TIMES} {name}" for name in dict.fromkeys(names)]


def short_setting(rows: pd.DataFrame) -> str:
    """Machine and path of MKL: `AMD EPYC (family 25, model 1), 2 cores, 2 ranks, as installed`."""
    path = f", {mkl_path(rows)}" if distinct_text(rows, "device") == "cpu" else ""
    return f"{short_machine(rows)}{path}"


def hardware(rows: pd.DataFrame) -> str:
    """Machine, path of MKL and what else is not the default: what comparisons of one chart have in common."""
    return ", ".join([short_setting(rows), *left_alone(rows)])


def has_full_path(rows: pd.DataFrame) -> bool:
    """Whether MKL took its full path on a CPU that Intel did not make."""
    return bool((rows["blas"] == "full").any())


def mkl_path(rows: pd.DataFrame) -> str:
    """Which path MKL took."""
    return "MKL's full path" if has_full_path(rows) else "as installed"


def extent(rows: pd.DataFrame) -> str:
    """How many launches and rounds were measured."""
    cells = ColumnArrays(rows)
    blocks = cells.where(~np.isnan(cells["round"]))
    rounds = Counter(launch for launch, _ in set(zip(blocks["launch"], blocks["round"], strict=True)))
    launches = plural(len(rounds), "launch", "es")
    if len(set(rounds.values())) == 1:
        return f"{launches} {TIMES} {plural(max(rounds.values()), 'round')}"
    return f"{launches}, {plural(rounds.total(), 'round')} in all"


def versions(rows: pd.DataFrame) -> str:
    """The packages that decide the result, the stack, the commit and the date."""
    decisive = re.compile(r"torch|transformers|onnxruntime-training.*|deepspeed")
    parts = []
    latest = dict(zip(rows["stack"], rows["environment"], strict=True))
    for stack, cell in latest.items():
        packages = environment_entry(parse_environment(cell), "packages") or {}
        parts += [f"{name} {packages[name]}" for name in sorted(packages) if decisive.fullmatch(name)]
        parts.append(f"stack {stack}")
    commits = re.sub(r"\b([0-9a-f]{12})[0-9a-f]+", r"\1", distinct_text(rows, "git_commit"))
    dates = sorted({moment[:10] for moment in rows["started_at"]})
    return ", ".join([*parts, f"commit {commits}", "/".join(dates)])


def workload_parts(rows: pd.DataFrame) -> dict[str, str]:
    """What distinguishes the comparisons of one model, by name; a part is empty where it is the default."""
    accumulation = reference_value(rows, "grad_accum")
    size = reference_value(rows, "micro_batch")
    micro_batch = "largest batch" if at_largest_batch(rows) else f"batch {size}"
    accumulated = "" if accumulation == "1" else f" {TIMES} {accumulation} accumulated"
    attention = distinct_text(rows, "attention")
    return {
        "task": distinct_text(rows, "task"),
        "batch": f"{micro_batch} {TIMES} {distinct_text(rows, 'world_size')}{accumulated}",
        "length": _length(rows),
        "precision": reference_value(rows, "precision"),
        "attention": f"{attention} attention" if attention not in ("", "eager") else "",
        **_particulars(rows),
        "memory limit": "" if at_largest_batch(rows) else _memory_limit(rows),  # else it is in the heading
    }


def stopping_rule(rows: pd.DataFrame) -> str:
    """How intervals decided the number of launches, and what that means for them; empty if they did not."""
    goals = rows["target_half_width"].dropna()
    if goals.empty:
        added = f" Launches were added later, so that intervals use the {STOPPED_CONFIDENCE:.0%} quantile."
        return added if launches_were_added(rows) else ""
    return (
        f" Launches were added until every interval was within ± {goals.max():.2%}; such intervals use the "
        f"{STOPPED_CONFIDENCE:.0%} quantile."
    )
