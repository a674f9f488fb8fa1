"""Small builders of blocks, records and comparisons with known figures, for tests."""

import dataclasses
from typing import Any

import numpy as np

from bench.machine.environment import hash_environment
from bench.machine.telemetry.gpu_meter import GpuSample
from bench.results.records import Block, LaunchStage, Phase, Record, WarmUp, Workload

MIB = 2**20

ENVIRONMENT: dict[str, Any] = {
    "host": "here",
    "packages": {
        "torch": "2.6.0",
        "transformers": "4.49.0",
        "onnxruntime-training-cpu": "1.19.2",
        "deepspeed": "0.16.9",
        "numpy": "2.2.6",
    },
    "cpu": {
        "model": "Example CPU",
        "cores": 2,
        "vendor": "Example",
        "family": 7,
        "model_number": 3,
        "stepping": 1,
        "instruction_sets": ["avx", "avx2", "fma"],
    },
    "gpus": [],
}


_CHOICES = {
    "pytorch": ("eager", "adamw", "ddp"),
    "ortmodule": ("ortmodule", "adamw_fused", "ddp"),
    "ortmodule_zero1": ("ortmodule", "adamw_fused", "zero1"),
    "pytorch_fused": ("eager", "adamw_fused", "ddp"),
    "pytorch_zero1": ("eager", "adamw", "zero1"),
    "pytorch_fused_zero1": ("eager", "adamw_fused", "zero1"),
    "ortmodule_adamw": ("ortmodule", "adamw", "ddp"),
    "ortmodule_adamw_zero1": ("ortmodule", "adamw", "zero1"),
}


def workload(**changes: Any) -> Workload:
    """Two ranks of micro-batch 4, accumulated twice: global batch 16."""
    figures: dict[str, Any] = {
        "model": "bert-tiny",
        "task": "masked-lm",
        "precision": "fp32",
        "attention": "eager",
        "world_size": 2,
        "micro_batch": 4,
        "grad_accum": 2,
        "seq_len": 128,
        "size": "published",
        "data": "synthetic",
        "lengths": "uniform",
        "checkpointing": False,
        "batch_rule": "equal",
        "parameters": 4_416_698,
        "trainable_parameters": 4_416_698,
        "padding_share": 0.25,
    }
    return Workload(**figures | changes)


def phase(seconds: tuple[float, ...] = (1.0, 1.0), **changes: Any) -> Phase:
    """Two ranks on a CPU that nobody else uses."""
    return Phase(**_figures(seconds) | changes)


def warm_up(seconds: float = 2.0, **changes: Any) -> WarmUp:
    """Ten steps in `seconds`."""
    return WarmUp(**_figures((seconds, seconds)) | {"steps": 10} | changes)


def sample(**changes: Any) -> GpuSample:
    """A GPU at full work and full clock."""
    figures: dict[str, Any] = {
        "used_bytes": 4000 * MIB,
        "utilisation_percent": 99.0,
        "sm_clock_mhz": 1700.0,
        "temperature_c": 60.0,
        "power_watts": 300.0,
        "throttled_by": (),
    }
    return GpuSample(**figures | changes)


def _figures(seconds: tuple[float, ...]) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "cpu_seconds": seconds,
        "other_cpu_seconds": (0.0, 0.0),
        "stolen_seconds": (0.0, 0.0),
        "page_faults": (2, 3),
        "cpu_clock_mhz": (None, None),
        "cpu_throttles": (None, None),
        "host_peak_bytes": (400 * MIB, 500 * MIB),
        "host_anonymous_peak_bytes": (None, None),  # as in older files
        "torch_peak_allocated_bytes": (None, None),
        "torch_peak_reserved_bytes": (None, None),
        "device_used_bytes": (None, None),
        "device_process_bytes": (None, None),
        "energy_joules": (None, None),
    }


def block(round: int = 1, seconds: float = 2.0, **changes: Any) -> Block:
    """Ten steps; rank 0 is 0.1 s quicker than rank 1, which takes `seconds`."""
    figures: dict[str, Any] = {
        "round": round,
        "position": 1,
        "attempt": 1,
        "steps": 10,
        "last_loss": (6.0, 6.5),
    }
    return Block(**_figures((seconds - 0.1, seconds)) | figures | changes)


def record(backend: str = "pytorch", launch: int = 1, **changes: Any) -> Record:
    """One launch of a backend with one block of 2 s: 80 samples/s."""
    engine, optimizer, sharding = _CHOICES.get(backend, ("eager", "adamw", "ddp"))
    figures: dict[str, Any] = {
        "study": "bench",
        "comparison": "bert-tiny-cpux2",
        "command": "make bench",
        "backend": backend,
        "reference": "pytorch",
        "engine": engine,
        "optimizer": optimizer,
        "sharding": sharding,
        "stage": LaunchStage.TIMED if launch else LaunchStage.PARITY,
        "launch": launch,
        "status": "ok",
        "started_at": "2026-11-20T12:00:00Z",
        "git_commit": "0123456789abcdef0123456789abcdef01234567",
        "stack": "ort",
        "device": "cpu",
        "threads_per_rank": 1,
        "cores_per_rank": 1,
        "allocator": "tuned",
        "seed": 7,
        "margin": 0.02,
        "workload": workload(),
        "setup": phase((3.0, 4.0), host_peak_bytes=(200 * MIB, 300 * MIB)),
        "first_step": phase((1.0, 0.5), host_peak_bytes=(350 * MIB, 340 * MIB)),
        "warm_up": (warm_up(2.2), warm_up(2.0)),
        "warm_up_settled": True,
        "blocks": (block(),),
        "weights_bytes": (3000, 4000),
        "optimizer_state_bytes": (1000, 2000),
        "loss_difference": 0.0 if backend == "pytorch" else 1e-6,
        "config_hash": "c0ffee",
        "environment": ENVIRONMENT,
    } | changes
    return Record(**{"environment_hash": hash_environment(figures["environment"])} | figures)


def failed(backend: str, status: str, message: str, launch: int = 1, **changes: Any) -> Record:
    """A launch that ended before its first block."""
    figures: dict[str, Any] = {"status": status, "message": message, "blocks": ()}
    return record(backend, launch, **figures | changes)


def comparison(seconds: dict[str, list[list[float]]], **changes: Any) -> list[Record]:
    """Records from the slowest rank's seconds of each backend's launches and rounds.

    `{"pytorch": [[2.0, 2.1], [2.0, 2.2]]}` is one backend with two launches of two rounds.
    """
    return [
        record(backend, launch, blocks=_blocks(rounds, place), **changes)
        for place, (backend, launches) in enumerate(seconds.items(), start=1)
        for launch, rounds in enumerate(launches, start=1)
    ]


def _blocks(rounds: list[float], place: int) -> tuple[Block, ...]:
    return tuple(block(number, value, position=place) for number, value in enumerate(rounds, start=1))


def with_environment(records: list[Record], **changes: Any) -> list[Record]:
    """The same records measured in a changed environment."""
    environment = {**ENVIRONMENT, **changes}
    hashed = hash_environment(environment)
    return [dataclasses.replace(one, environment=environment, environment_hash=hashed) for one in records]


def noisy_seconds(base: float, seed: int, noise: float = 0.003) -> list[list[float]]:
    """Three launches of five rounds around `base` seconds."""
    draws = np.random.default_rng(seed).normal(0, noise, (3, 5))
    return [list(map(float, launch)) for launch in base * np.exp(draws)]


def two_backends(seed: int = 1, ort: float = 1.5, torch: float = 2.0) -> list[Record]:
    """A comparison of two backends whose blocks take about so many seconds, noise included."""
    return comparison({"pytorch": noisy_seconds(torch, seed), "ortmodule": noisy_seconds(ort, seed + 100)})
