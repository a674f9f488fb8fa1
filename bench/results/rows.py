"""A record becomes rows of the results CSV: one for each block, or one for a launch that failed."""

import json
from collections.abc import Sequence
from typing import Any

from bench.config.schema import global_batch
from bench.machine.telemetry.gpu_meter import NVML_SECONDS, GpuSample
from bench.results import arithmetic, validity
from bench.results.columns import COLUMNS
from bench.results.environment_cell import format_environment
from bench.results.records import Block, Phase, Record
from bench.study import load_parts


def rows_of_record(record: Record) -> list[dict[str, Any]]:
    """The record's measured blocks, one row each, and one more if the launch failed or nothing was timed.

    A contaminated block (`bench.results.validity`) gets the status `invalid` and keeps its figures.
    """
    rows = [_block_row(record, block) for block in record.blocks]
    if record.status == "ok":
        return rows
    launch_row = {
        **_launch_cells(record),
        "status": record.status,
        "message": record.message or _note(record),
    }
    if record.status == "untimed":
        launch_row["loss_difference"] = record.loss_difference
    return [*rows, launch_row]


def _block_row(record: Record, block: Block) -> dict[str, Any]:
    launch = _launch_cells(record)
    seconds = max(block.seconds)
    contamination = validity.find_contamination(block, record.cores_per_rank)
    for part in load_parts("cells").values():
        launch |= part.make_cells(record, block.steps, seconds)
    return (
        launch
        | _phase_cells(record)
        | _gpu_cells(block)
        | {
            "status": "invalid" if contamination else "ok",
            "message": contamination.reason if contamination else _note(record),
            "invalid_because": contamination.cause if contamination else "",
            "round": block.round,
            "position": block.position,
            "attempt": block.attempt,
            "steps": block.steps,
            "seconds": seconds,
            "samples_per_s": arithmetic.samples_per_s(block.steps, launch["global_batch"], seconds),
            "cpu_seconds": sum(block.cpu_seconds),
            "other_cpu_seconds": arithmetic.sum_of_all(block.other_cpu_seconds),
            "stolen_seconds": arithmetic.sum_of_all(block.stolen_seconds),
            "cpu_clock_mhz": min(_unless_one_is_missing(block.cpu_clock_mhz), default=None),
            "cpu_throttles": arithmetic.sum_of_all(block.cpu_throttles),
            "page_faults": sum(block.page_faults),
            "host_peak_mib": _highest_mib(block.host_peak_bytes),
            "host_anonymous_peak_mib": _highest_mib(block.host_anonymous_peak_bytes),
            "device_peak_mib": _device_peak_mib(block),
            "device_process_mib": _highest_mib(block.device_process_bytes),
            "device_baseline_mib": _highest_mib(block.device_foreign_bytes),
            "gpu_utilisation_before": max(
                _unless_one_is_missing([sample.utilisation_percent for sample in record.device_before]),
                default=None,
            ),
            "torch_peak_allocated_mib": _highest_mib(block.torch_peak_allocated_bytes),
            "torch_peak_reserved_mib": _highest_mib(block.torch_peak_reserved_bytes),
            "weights_bytes": max(record.weights_bytes, default=None),
            "optimizer_state_bytes": max(record.optimizer_state_bytes, default=None),
            "energy_j": arithmetic.sum_of_all(block.energy_joules),
            "last_loss": arithmetic.mean_of_known(block.last_loss),
            "loader_s": max(_unless_one_is_missing(block.loader_seconds), default=None),
            "loss_scale": block.loss_scale,
            "skipped_steps": block.skipped_steps,
            "loss_difference": record.loss_difference,
        }
    )


def _note(record: Record) -> str:
    """What parity did not compare, and what of a checkpoint was not used; the reference says that for all."""
    weights = record.workload.weights if record.backend == record.reference else ""
    return "; ".join(filter(None, [record.parity_note, weights]))


def _phase_cells(record: Record) -> dict[str, Any]:
    warm_up = record.warm_up
    cells: dict[str, Any] = {
        "import_s": max(record.import_seconds, default=None),
        "warm_up_s": arithmetic.sum_of_all([max(phase.seconds) for phase in warm_up]),
        "warm_up_steps": arithmetic.sum_of_all([phase.steps for phase in warm_up]),
        "warm_up_settled": None if record.warm_up_settled is None else int(record.warm_up_settled),
    }
    for name, phase in (("setup", record.setup), ("first_step", record.first_step)):
        if phase is not None:
            cells |= {
                f"{name}_s": max(phase.seconds),
                f"{name}_cpu_seconds": sum(phase.cpu_seconds),
                f"{name}_host_peak_mib": _highest_mib(phase.host_peak_bytes),
                f"{name}_host_anonymous_peak_mib": _highest_mib(phase.host_anonymous_peak_bytes),
                f"{name}_device_peak_mib": _device_peak_mib(phase),
            }
    if record.first_step is not None:
        allocated = record.first_step.torch_peak_allocated_bytes
        cells["first_step_torch_peak_allocated_mib"] = _highest_mib(allocated)
    return cells


def _gpu_cells(block: Block) -> dict[str, Any]:
    """Load, clock, temperature and power of the GPUs in the block, and at both its ends.

    Blank where there are no samples; the clock of a block too short for one is that of its ends. The load at
    its end, by NVML that of the second before, counts if that is the block's.
    """
    samples = [sample for device in block.samples for sample in device]

    def known_values(name: str, samples: Sequence[GpuSample] = samples) -> list[float]:
        return [value for sample in samples if (value := getattr(sample, name)) is not None]

    ends = [sample for rank in block.device_ends for sample in rank]
    lasts = [rank[-1] for rank in block.device_ends if rank and min(block.seconds) >= NVML_SECONDS]
    powers = [known_values("power_watts", device) for device in block.samples]
    reasons = {reason for sample in (*samples, *ends) for reason in sample.throttled_by or ()}
    return {
        "gpu_utilisation": arithmetic.mean_of_known(known_values("utilisation_percent", [*samples, *lasts])),
        "gpu_clock_mhz": arithmetic.mean_of_known(
            known_values("sm_clock_mhz") or known_values("sm_clock_mhz", ends)
        ),
        "gpu_temperature_c": max(known_values("temperature_c", [*samples, *ends]), default=None),
        "gpu_power_w": arithmetic.sum_of_all([arithmetic.mean_of_known(power) for power in powers]),
        "gpu_throttled_by": ", ".join(sorted(reasons)),
    }


def _device_peak_mib(phase: Phase) -> float | None:
    """The largest use of the device with the highest, less others' memory.

    Others' memory is what the driver does not attribute to the rank, else what changed in others' turns.
    """
    peaks: list[int | None] = []
    every = zip(phase.device_used_bytes, phase.device_process_bytes, phase.device_others_bytes, strict=False)
    for place, (end, own, others) in enumerate(every):
        if end is not None and own is not None:
            others = end - own
        samples = phase.samples[place] if place < len(phase.samples) else ()
        seen = [sample.used_bytes for sample in samples if sample.used_bytes is not None]
        peaks.append(None if end is None or others is None else max([end, *seen]) - others)
    return _highest_mib(peaks)


def _launch_cells(record: Record) -> dict[str, Any]:
    work = record.workload
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    for source in (record, work):
        row |= {column: getattr(source, column) for column in COLUMNS if hasattr(source, column)}
    predicted = record.predicted
    return row | {
        "overrides": json.dumps(record.overrides, ensure_ascii=False),
        "optimizer_implementation": record.proof.get("optimizer", {}).get("implementation"),
        "checkpointing": int(work.checkpointing),
        "host_runtime_mib": _highest_mib(record.host_runtime_bytes),
        "host_runtime_anonymous_mib": _highest_mib(record.host_runtime_anonymous_bytes),
        "predicted_weights_bytes": predicted and predicted.weights,
        "predicted_gradients_bytes": predicted and predicted.gradients,
        "predicted_optimizer_bytes": predicted and predicted.optimizer,
        "global_batch": global_batch(work.micro_batch, work.grad_accum, work.world_size),
        "weights_bytes": None,
        "optimizer_state_bytes": None,
        "loss_difference": None,
        "warm_up_settled": None,
        "environment": format_environment(record.environment),
    }


def _highest_mib(sizes: Sequence[int | None]) -> float | None:
    known = _unless_one_is_missing(sizes)
    return arithmetic.mib(max(known)) if known else None


def _unless_one_is_missing(values: Sequence[Any]) -> Sequence[Any]:
    """The values, or nothing if one is missing: a maximum or sum of the rest would be too low."""
    return () if None in values else values
