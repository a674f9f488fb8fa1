"""Records to rows of the results CSV, and back from the CSV to a DataFrame.

One file holds one comparison; a row is one backend in one round, or one failed launch, whose
measurements are blank. Raw figures become cells here, derived ones come from `stats`.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.analysis import stats
from bench.config.schema import global_batch
from bench.errors import STATUSES, UserError
from bench.machine.telemetry.sample import Sample
from bench.results import validity
from bench.results.cells import Cells
from bench.results.records import SCHEMA_VERSION, Block, Phase, Record, write_atomically

TEXT, WHOLE, REAL = "object", "Int64", "float64"

DTYPES = {
    "schema_version": WHOLE,
    "comparison": TEXT,
    "command": TEXT,  # that makes it again
    "status": TEXT,
    "message": TEXT,
    "started_at": TEXT,  # of the launch; ISO 8601, UTC
    "git_commit": TEXT,
    "stack": TEXT,
    "device": TEXT,
    "model": TEXT,
    "size": TEXT,  # published, or mini
    "parameters": WHOLE,
    "trainable_parameters": WHOLE,  # fewer with LoRA
    "task": TEXT,
    "data": TEXT,  # synthetic, or hf:<path>
    "lengths": TEXT,  # the distribution of synthetic samples' lengths; blank otherwise
    "backend": TEXT,
    "reference": TEXT,  # the backend that speed-ups are measured against
    "engine": TEXT,
    "optimizer": TEXT,
    "sharding": TEXT,
    "slowed_by": REAL,  # share of every step's time spent in vain on purpose: make selftest
    "precision": TEXT,
    "attention": TEXT,
    "checkpointing": WHOLE,  # 1 or 0: activations are recomputed in the backward pass
    "batch_rule": TEXT,  # equal; max: each backend at its own largest micro-batch
    "memory_limit_gib": REAL,  # of each backend's private memory on the host; blank: none
    "nodes": WHOLE,  # machines that the ranks are spread over
    "world_size": WHOLE,
    "micro_batch": WHOLE,
    "grad_accum": WHOLE,
    "global_batch": WHOLE,
    "seq_len": WHOLE,
    "padding_share": REAL,
    "threads_per_rank": WHOLE,
    "cores_per_rank": WHOLE,  # more than threads_per_rank: the threads were not held
    "allocator": TEXT,
    "seed": WHOLE,
    "margin": REAL,  # a ratio within 1 ± margin is `same`
    "until": REAL,  # half-width at which launches ended; blank: their number was fixed
    "launch": WHOLE,  # from 1; 0 is what comes before: parity, and the search for the largest batch
    "round": WHOLE,  # from 1; blank: the launch failed
    "position": WHOLE,  # the backend's place in the round, from 1
    "attempt": WHOLE,  # from 1; above it, the one before was contaminated
    "steps": WHOLE,
    "seconds": REAL,  # of the slowest rank
    "samples_per_s": REAL,  # steps * global_batch / seconds
    "model_flops_per_step": WHOLE,  # forward and backward, all ranks; without recomputation and optimizer
    "model_flops_per_s": REAL,  # model_flops_per_step * steps / seconds
    "matmul_flops_per_s": REAL,  # of the devices at this precision, as measured before; sum of all ranks
    "roofline_share": REAL,  # model_flops_per_s / matmul_flops_per_s
    "cpu_seconds": REAL,  # user + system, sum of all ranks
    "other_cpu_seconds": REAL,  # that other processes had of the ranks' cores
    "stolen_seconds": REAL,  # that the hypervisor took of them
    "cpu_clock_mhz": REAL,  # at the block's end, of a rank's fastest core; slowest rank
    "cpu_throttles": WHOLE,  # times that a core slowed down for heat, sum of all ranks
    "page_faults": WHOLE,  # without disk, sum of all ranks: memory touched for the first time
    "loader_s": REAL,  # of the block, that the ranks waited for batches; slowest rank; blank: they were there
    "loss_scale": REAL,  # at the block's end; blank: the loss is not scaled
    "skipped_steps": WHOLE,  # of the block, since gradients overflowed; blank likewise
    "setup_s": REAL,  # from here to warm_up_settled: of the launch; slowest rank
    "first_step_s": REAL,
    "warm_up_s": REAL,
    "warm_up_steps": WHOLE,
    "warm_up_settled": WHOLE,  # 1 or 0
    "setup_cpu_seconds": REAL,  # sum of all ranks
    "first_step_cpu_seconds": REAL,
    "setup_host_peak_mib": REAL,  # highest rank or device, like all peaks
    "first_step_host_peak_mib": REAL,
    "host_peak_mib": REAL,  # of the block, like all peaks without another phase in their name
    "setup_device_peak_mib": REAL,
    "first_step_device_peak_mib": REAL,
    "device_peak_mib": REAL,
    "device_process_mib": REAL,  # at the block's end, what the driver books on the rank
    "device_baseline_mib": REAL,  # in use before the group started; already taken off the peaks
    "first_step_torch_peak_allocated_mib": REAL,
    "torch_peak_allocated_mib": REAL,
    "torch_peak_reserved_mib": REAL,
    "host_runtime_mib": REAL,  # before there was a model: interpreter and all libraries; highest rank
    "predicted_weights_bytes": WHOLE,  # from here: per rank, from the number of parameters alone
    "predicted_gradients_bytes": WHOLE,
    "predicted_optimizer_bytes": WHOLE,
    "optimizer_state_bytes": WHOLE,  # as measured, highest rank
    "energy_j": REAL,  # sum of all devices
    "gpu_utilisation": REAL,  # from here to gpu_throttled_by: of the samples in the block; mean, percent
    "gpu_utilisation_before": REAL,  # just before the group started; highest device
    "gpu_clock_mhz": REAL,  # mean
    "gpu_temperature_c": REAL,  # highest
    "gpu_power_w": REAL,  # mean of the samples, sum of the devices
    "gpu_throttled_by": TEXT,  # blank: by nothing, or unknown
    "last_loss": REAL,  # of the block's last step, mean of all ranks
    "loss_difference": REAL,  # from the reference, in the parity check
    "config_hash": TEXT,
    "environment_hash": TEXT,
    "environment": TEXT,  # JSON: versions, driver, hardware
}
"""Every column in order, with its type in pandas: what is blank is NaN in REAL and NA in WHOLE."""

COLUMNS = tuple(DTYPES)


# Records to rows


def rows(record: Record) -> list[dict[str, Any]]:
    """The record's measured blocks, one row each, and one more if the launch failed or nothing was timed.

    A contaminated block (`bench.results.validity`) gets the status `invalid` and keeps its figures.
    """
    measured = [_block_row(record, block) for block in record.blocks]
    if record.status == "ok":
        return measured
    whole = {**_launch_cells(record), "status": record.status, "message": record.message}
    if record.status == "untimed":
        whole["loss_difference"] = record.loss_difference
    return [*measured, whole]


def _block_row(record: Record, block: Block) -> dict[str, Any]:
    launch = _launch_cells(record)
    seconds = stats.block_seconds(block.seconds)
    message = validity.contamination(block, record.cores_per_rank)
    baseline = _baseline(record)
    return (
        launch
        | _launch_phases(record)
        | _gpu_cells(block)
        | _roofline_cells(record, block.steps, seconds)
        | {
            "status": "invalid" if message else "ok",
            "message": message,
            "round": block.round,
            "position": block.position,
            "attempt": block.attempt,
            "steps": block.steps,
            "seconds": seconds,
            "samples_per_s": stats.samples_per_s(block.steps, launch["global_batch"], seconds),
            "cpu_seconds": sum(block.cpu_seconds),
            "other_cpu_seconds": _sum(block.other_cpu_seconds),
            "stolen_seconds": _sum(block.stolen_seconds),
            "cpu_clock_mhz": min(_all_known(block.cpu_clock_mhz), default=None),
            "cpu_throttles": _sum(block.cpu_throttles),
            "page_faults": sum(block.page_faults),
            "host_peak_mib": _highest_mib(block.host_peak_bytes),
            "device_peak_mib": _device_peak_mib(block, baseline),
            "device_process_mib": _highest_mib(block.device_process_bytes),
            "device_baseline_mib": _highest_mib(baseline),
            "gpu_utilisation_before": max(_all_known(_utilisation_before(record)), default=None),
            "torch_peak_allocated_mib": _highest_mib(block.torch_peak_allocated_bytes),
            "torch_peak_reserved_mib": _highest_mib(block.torch_peak_reserved_bytes),
            "optimizer_state_bytes": max(record.optimizer_state_bytes, default=None),
            "energy_j": _sum(block.energy_joules),
            "last_loss": _mean(block.last_loss),
            "loader_s": max(_all_known(block.loader_seconds), default=None),
            "loss_scale": block.loss_scale,
            "skipped_steps": block.skipped_steps,
            "loss_difference": record.loss_difference,
        }
    )


def _launch_phases(record: Record) -> dict[str, Any]:
    """What happened before the blocks, in every row of the launch."""
    warm_up = record.warm_up
    cells: dict[str, Any] = {
        "warm_up_s": sum(stats.block_seconds(one.seconds) for one in warm_up) if warm_up else None,
        "warm_up_steps": sum(one.steps for one in warm_up) if warm_up else None,
        "warm_up_settled": None if record.warm_up_settled is None else int(record.warm_up_settled),
    }
    for name, phase in (("setup", record.setup), ("first_step", record.first_step)):
        if phase is not None:
            cells |= {
                f"{name}_s": stats.block_seconds(phase.seconds),
                f"{name}_cpu_seconds": sum(phase.cpu_seconds),
                f"{name}_host_peak_mib": _highest_mib(phase.host_peak_bytes),
                f"{name}_device_peak_mib": _device_peak_mib(phase, _baseline(record)),
            }
    if record.first_step is not None:
        allocated = record.first_step.torch_peak_allocated_bytes
        cells["first_step_torch_peak_allocated_mib"] = _highest_mib(allocated)
    return cells


def _roofline_cells(record: Record, steps: int, seconds: float) -> dict[str, Any]:
    """How much of what the devices can do the block did; blank where either is unknown."""
    work, roofline = record.workload, record.roofline
    cells: dict[str, Any] = {}
    if roofline.counted:
        ranks_work = stats.model_flops(roofline.counted, work.micro_batch)
        per_step = ranks_work * work.grad_accum * work.world_size
        cells["model_flops_per_step"] = per_step
        cells["model_flops_per_s"] = stats.rate(per_step * steps, seconds)
    if roofline.products:
        cells["matmul_flops_per_s"] = sum(stats.rate(one.flops, one.seconds) for one in roofline.products)
    if roofline.counted and roofline.products:
        cells["roofline_share"] = stats.ratio(cells["model_flops_per_s"], cells["matmul_flops_per_s"])
    return cells


def _gpu_cells(block: Block) -> dict[str, Any]:
    """What the samples of the block say; blank without any."""
    every = [sample for device in block.samples for sample in device]

    def known(name: str, samples: Sequence[Sample] = every) -> list[float]:
        return [value for sample in samples if (value := getattr(sample, name)) is not None]

    powers = [known("power_watts", device) for device in block.samples]
    reasons = {reason for sample in every for reason in sample.throttled_by or ()}
    return {
        "gpu_utilisation": _mean(known("utilisation_percent")),
        "gpu_clock_mhz": _mean(known("sm_clock_mhz")),
        "gpu_temperature_c": max(known("temperature_c"), default=None),
        "gpu_power_w": _sum([_mean(power) for power in powers]),
        "gpu_throttled_by": ", ".join(sorted(reasons)),
    }


def _baseline(record: Record) -> list[int | None]:
    return [sample.used_bytes for sample in record.device_before]


def _utilisation_before(record: Record) -> list[float | None]:
    return [sample.utilisation_percent for sample in record.device_before]


def _device_peak_mib(phase: Phase, baseline: Sequence[int | None]) -> float | None:
    """The highest device's largest use that was seen, less what was in use before the group started."""
    peaks: list[int | None] = []
    for place, (end, before) in enumerate(zip(phase.device_used_bytes, baseline, strict=False)):
        samples = phase.samples[place] if place < len(phase.samples) else ()
        seen = [sample.used_bytes for sample in samples if sample.used_bytes is not None]
        peaks.append(None if end is None or before is None else max([end, *seen]) - before)
    return _highest_mib(peaks)


def _launch_cells(record: Record) -> dict[str, Any]:
    """What all rows of a record share; the measurements are still blank."""
    work = record.workload
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    for source in (record, work):
        row |= {column: getattr(source, column) for column in COLUMNS if hasattr(source, column)}
    predicted = record.predicted
    return row | {
        "checkpointing": int(work.checkpointing),
        "host_runtime_mib": _highest_mib(record.host_runtime_bytes),
        "predicted_weights_bytes": predicted and predicted.weights,
        "predicted_gradients_bytes": predicted and predicted.gradients,
        "predicted_optimizer_bytes": predicted and predicted.optimizer,
        "global_batch": global_batch(work.micro_batch, work.grad_accum, work.world_size),
        "optimizer_state_bytes": None,
        "loss_difference": None,
        "warm_up_settled": None,
        "environment": as_json(record.environment),
    }


def as_json(environment: Mapping[str, Any]) -> str:
    """The environment as the text of its cell."""
    return json.dumps(environment, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _highest_mib(sizes: Sequence[int | None]) -> float | None:
    known = _all_known(sizes)
    return stats.mib(max(known)) if known else None


def _mean(values: Sequence[float]) -> float | None:
    return stats.mean(values) if values else None


def _sum(values: Sequence[float | None]) -> float | None:
    return sum(known) if (known := _all_known(values)) else None


def _all_known(values: Sequence[Any]) -> Sequence[Any]:
    """The values, or nothing if one is missing: a maximum or sum of the rest would be too low."""
    return () if None in values else values


# Rows to the file


def write(path: Path, records: Iterable[Record]) -> None:
    """Replace the file by the rows of these records, atomically."""
    write_rows(path, [row for record in records for row in rows(record)])


def write_rows(path: Path, rows: Iterable[Mapping[Any, Any]]) -> None:
    """Replace the file by these rows, which may also come from `read(path).to_dict("records")`."""
    write_atomically(path, _text(rows))


def frame(records: Iterable[Record]) -> pd.DataFrame:
    """What `read` would return for these records, without a file."""
    return frame_of_rows(row for record in records for row in rows(record))


def frame_of_rows(rows: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    """What `read` would return after `write_rows`, without a file."""
    return _typed(_cells(_text(rows), ""), "")


def _text(rows: Iterable[Mapping[Any, Any]]) -> str:
    lines = [COLUMNS, *([_cell(row[column]) for column in COLUMNS] for row in rows)]
    return "".join(",".join(map(_quoted, line)) + "\n" for line in lines)


def _cell(value: Any) -> str:
    """One value as text: floats with all their digits; what is missing or not finite is blank."""
    if isinstance(value, str):
        # a log may hold lone surrogates, which are no UTF-8, and NUL, which Python 3.10 cannot read
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    if value is None or value is pd.NA or not math.isfinite(value):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def _quoted(cell: str) -> str:
    """RFC 4180 quoting. Python 3.11's csv.writer leaves a bare carriage return unquoted."""
    return '"' + cell.replace('"', '""') + '"' if any(c in cell for c in ',"\r\n') else cell


# The file to a DataFrame


def read(path: Path) -> pd.DataFrame:
    """Read a results file; the columns are `COLUMNS`, typed as in `DTYPES`, text untouched.

    Raises:
        UserError: if the file is missing, damaged, not a results file or of another schema.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise UserError(
            f"{path} cannot be read ({reason}); check the path, or measure with `make bench`"
        ) from None
    return parse(content, str(path))


def files(folder: Path) -> list[Path]:
    """The results files right inside a folder, sorted by name.

    Raises:
        UserError: if there is none.
    """
    if found := sorted(folder.glob("*.csv")):
        return found
    raise UserError(f"{folder} holds no results file; measure with `make bench` first")


def parse(content: bytes, name: str) -> pd.DataFrame:
    """The same as `read` for a file's content that is already here; errors call it `name`."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise _damaged(name, "it is not UTF-8 text") from None
    table = _typed(_cells(text, name), name)
    _check(table, name)
    return table


def environment(table: pd.DataFrame) -> dict[str, Any]:
    """The environment of the file's latest row; empty if it is not a JSON object."""
    return environment_of(table["environment"].iloc[-1])


def environment_of(cell: str) -> dict[str, Any]:
    """The environment that a cell holds; empty if it is not a JSON object."""
    try:
        found = json.loads(cell)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def entry(environment: Any, *keys: str) -> Any:
    """A nested entry of the environment; None if it, or anything on the way to it, is missing."""
    for key in keys:
        environment = environment.get(key) if isinstance(environment, dict) else None
    return environment


def gpu_names(environment: dict[str, Any]) -> list[str]:
    """The names of the GPUs, one per device."""
    return [str(entry(gpu, "name") or "GPU") for gpu in environment.get("gpus") or []]


def _cells(text: str, name: str) -> pd.DataFrame:
    """Every cell as text, once header and shape are right."""
    try:
        header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    except (csv.Error, ValueError):  # ValueError: not even a header
        raise _damaged(name, "it is empty or breaks off inside a cell") from None
    if len(set(header)) != len(header):
        raise _damaged(name, "a column is there twice")
    if not text.endswith("\n") or any(len(line) != len(header) for line in lines):
        raise _damaged(name, "it breaks off, or a row has too few or too many cells")
    table = pd.DataFrame(lines, columns=header, dtype=object)
    _check_schema(table, name)
    if tuple(header) != COLUMNS:
        strange = sorted(set(header) ^ set(COLUMNS)) or ["their order"]
        raise UserError(
            f"{name} is not a results file of this harness (its columns differ: "
            f"{', '.join(strange[:5])}); give a file that `make bench` wrote"
        )
    return table


def _check_schema(table: pd.DataFrame, name: str) -> None:
    """Another version also has other columns, so this is asked first."""
    versions = set(table["schema_version"]) if "schema_version" in table else set()
    if foreign := sorted(versions - {str(SCHEMA_VERSION)}):
        raise UserError(
            f"{name} has schema version {', '.join(foreign)}, this harness reads {SCHEMA_VERSION}; "
            "measure it again, or check out the harness that wrote it"
        )


def _typed(table: pd.DataFrame, name: str) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for column, dtype in DTYPES.items():
        cells = table[column].tolist()
        try:
            columns[column] = _array(cells, dtype)
        except (TypeError, ValueError, OverflowError):
            raise _damaged(name, f"{column} holds something that is not a number") from None
    return pd.DataFrame(columns, copy=False)


def _array(cells: list[str], dtype: str) -> Any:
    """A column's cells as what pandas calls `dtype`; blank is missing."""
    if dtype == TEXT:
        return pd.Series(cells, dtype=object)  # of a bare array pandas 3 makes a type of text of its own
    if dtype == REAL:
        return np.array([float(cell) if cell else math.nan for cell in cells])
    blank = np.array([not cell for cell in cells], dtype=bool)
    return pd.arrays.IntegerArray(np.array([int(cell or 0) for cell in cells], dtype=np.int64), blank)


def _check(table: pd.DataFrame, name: str) -> None:
    """Refuse rows that would make a wrong figure without anybody noticing."""
    if table.empty:
        raise _damaged(name, "it has no rows")
    cells = Cells(table)
    if not set(cells["status"]) <= set(STATUSES):
        raise _damaged(name, "it holds a status that does not exist")
    if len(set(zip(cells["comparison"], cells["reference"], strict=True))) > 1:
        raise _damaged(name, "it mixes comparisons")
    is_block = ~np.isnan(cells["round"])
    if (~is_block & (cells["status"] == "ok")).any():
        raise _damaged(name, "a row without a round is ok")
    blocks = cells.where(is_block)
    needed = np.array([blocks[column] for column in ("launch", "steps", "seconds", "samples_per_s")])
    if not (needed > 0).all():  # NaN is not, either
        raise _damaged(name, "a measured row lacks its figures")
    if _has_duplicates(blocks, ("backend", "launch", "round", "attempt")):
        raise _damaged(name, "an attempt of a backend in a round is there twice")
    if _has_duplicates(blocks.where(blocks["status"] == "ok"), ("backend", "launch", "round")):
        raise _damaged(name, "a backend has two valid blocks in one round")
    derived = stats.samples_per_s(blocks["steps"], blocks["global_batch"], blocks["seconds"])
    if not (np.abs(blocks["samples_per_s"] - derived) <= 1e-9 * derived).all():
        raise _damaged(name, "samples_per_s is not steps x global_batch / seconds")
    did, can = blocks["model_flops_per_s"], blocks["matmul_flops_per_s"]
    work = stats.rate(blocks["model_flops_per_step"] * blocks["steps"], blocks["seconds"])
    for column, derived in (("model_flops_per_s", work), ("roofline_share", stats.ratio(did, can))):
        if not np.allclose(blocks[column], derived, rtol=1e-9, atol=0, equal_nan=True):
            raise _damaged(name, f"{column} is not what it is derived from")


def _has_duplicates(cells: Cells, columns: tuple[str, ...]) -> bool:
    keys = list(zip(*(cells[column].tolist() for column in columns), strict=True))
    return len(set(keys)) < len(keys)


def _damaged(name: str, what: str) -> UserError:
    return UserError(f"{name} is damaged: {what}; restore it with `git checkout`, or measure it again")
