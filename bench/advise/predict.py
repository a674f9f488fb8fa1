"""Predicts what a configuration needs and reaches, from a short trial and the effects that were measured."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.advise.effects import ANYTHING, Bounds, Choice, Effects
from bench.config.schema import Config
from bench.results.prediction import ADAMW_STATE_BYTES, BYTES_OF_16_BITS, FP32_BYTES, STATE_BYTES
from bench.sweeps.fit import Trial

ACTIVATIONS: Mapping[Choice, Bounds] = {
    ("checkpointing", "1"): Bounds(0.05, 0.8),
    ("precision", "bf16"): Bounds(0.5, 1.0),
    ("precision", "fp16"): Bounds(0.5, 1.0),
    ("attention", "sdpa"): Bounds(0.5, 1.0),
    ("engine", "compile"): Bounds(0.5, 1.3),
    ("engine", "ortmodule"): Bounds(0.6, 1.5),
}
"""What a choice does to the memory that is neither weights, gradients nor states, as a multiple.

Wide bounds, since they only decide what is measured."""

MEMORY_TOLERANCE = 0.1
"""By what share memory may differ from what is added up: what allocators keep, and buffers."""

INTERPLAY = 0.2
"""By what share several choices together may do more or less than the product of each alone."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One configuration.

    Attributes:
        backend: its name.
        changes: what it has otherwise than plain PyTorch.
        parts: in which each micro-batch is trained, one after the other.
        memory: of all ranks, in bytes.
        speed: over plain PyTorch's with undivided micro-batches.
        failed: how one of its choices ended on this machine where it was never timed; empty otherwise.
    """

    backend: str
    changes: Sequence[Choice]
    parts: int
    memory: Bounds
    speed: Bounds
    failed: str = ""


def changes_of(config: Config, name: str) -> list[Choice]:
    """What a backend has otherwise than plain PyTorch, by the names and values of the results' columns."""
    backend = config.backends[name]
    plain = {
        "engine": "eager",
        "optimizer": "adamw",
        "sharding": "ddp",
        "attention": "eager",
        "precision": "fp32",
        "checkpointing": "0",
    }
    mine = {
        "engine": backend.engine,
        "optimizer": backend.optimizer_on(config.device.type),
        "sharding": backend.sharding,
        "attention": config.attention_of(name),
        "precision": config.precision_of(name).name,
        "checkpointing": str(int(config.checkpointing_of(name))),
    }
    return [(choice, value) for choice, value in mine.items() if value != plain[choice]]


def predict(
    config: Config, name: str, trial: Trial, *, trial_parts: int, effects: Effects, limit_bytes: float
) -> Candidate:
    """Return what a backend needs and reaches, its micro-batches in as few parts as fit.

    Args:
        config: of the comparison.
        name: of the backend.
        trial: of plain PyTorch with the same model.
        trial_parts: in which that trained each micro-batch.
        effects: of choices on this machine.
        limit_bytes: that all ranks together may take.
    """
    changes = changes_of(config, name)
    possible = divisors(config.micro_batch)
    needs = {parts: _memory(changes, trial, trial_parts / parts, config) for parts in possible}
    parts = next((one for one in possible if middle(needs[one]) <= limit_bytes), possible[-1])
    return Candidate(
        backend=name,
        changes=changes,
        parts=parts,
        memory=needs[parts],
        speed=_speed(changes, parts, effects),
        failed=next((effects.failed[one] for one in changes if one in effects.failed), ""),
    )


def _memory(changes: Sequence[Choice], trial: Trial, larger: float, config: Config) -> Bounds:
    """Bytes of all ranks, with parts of a micro-batch so many times as large as the trial's."""
    chosen = dict(changes)
    state = STATE_BYTES.get(chosen.get("optimizer", ""), ADAMW_STATE_BYTES)
    held = trial.parameters * (2 * FP32_BYTES + state)
    in_trial = trial.peak_bytes - trial.runtime_bytes
    activations = max(0.0, in_trial - trial.parameters * (2 * FP32_BYTES + ADAMW_STATE_BYTES)) * larger
    bounds = Bounds(activations, activations)
    for choice in changes:
        bounds *= ACTIVATIONS.get(choice, Bounds(1.0, 1.0))
    # Autocast keeps the weights that it has cast until the step ends.
    cast = trial.parameters * BYTES_OF_16_BITS if chosen.get("precision") in ("bf16", "fp16") else 0
    whole = Bounds(bounds.low + held, bounds.high + held + cast).plus(trial.runtime_bytes)
    return (whole * Bounds(1 - MEMORY_TOLERANCE, 1 + MEMORY_TOLERANCE)).scaled(config.device.world_size)


def _speed(changes: Sequence[Choice], parts: int, effects: Effects) -> Bounds:
    speed = Bounds(1.0, 1.0)
    for choice in changes:
        speed *= effects.speed.get(choice, ANYTHING)
    if len(changes) > 1:
        speed *= Bounds(1 - INTERPLAY, 1 + INTERPLAY)
    return speed * _slowed_by_parts(parts, effects)


def _slowed_by_parts(parts: int, effects: Effects) -> Bounds:
    """What it costs to train a micro-batch in parts: what as many did, or were there fewer, more of it."""
    if parts == 1:
        return Bounds(1.0, 1.0)
    measured = {
        int(value): bounds for (choice, value), bounds in effects.speed.items() if choice == "grad_accum"
    }
    if not measured:
        return Bounds(0.0, 1.0 + INTERPLAY)
    nearest = min(measured, key=lambda count: abs(math.log(count / parts)))
    times = max(1.0, math.log(parts) / math.log(nearest))
    return Bounds(measured[nearest].low ** times, 1.0 + INTERPLAY)


def divisors(number: int) -> list[int]:
    """All of them, the smallest first."""
    return [one for one in range(1, number + 1) if number % one == 0]


def middle(bounds: Bounds) -> float:
    """Half-way between the bounds."""
    return (bounds.low + bounds.high) / 2


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What is measured and what is not.

    Attributes:
        open: those that may be the best.
        left_out: the others, each with the reason.
    """

    open: Sequence[Candidate]
    left_out: Sequence[tuple[Candidate, str]]


def select(candidates: Sequence[Candidate], limit_bytes: float) -> Selection:
    """Divide candidates into those that the prediction leaves open, and those that cannot be the best.

    Args:
        candidates: all of them.
        limit_bytes: that all ranks together may take.
    """
    trainable = [one for one in candidates if not one.failed]
    fitting = [one for one in trainable if one.memory.high <= limit_bytes]
    best = max(fitting, key=lambda one: one.speed.low, default=None)
    left: list[Candidate] = []
    out: list[tuple[Candidate, str]] = []
    for one in candidates:
        if one.failed:
            out.append((one, f"it was {one.failed} on this machine"))
        elif one.memory.low > limit_bytes:
            out.append((one, f"it needs at least {one.memory.low / 2**30:.1f} GiB"))
        elif best is not None and one.speed.high < best.speed.low:
            out.append(
                (
                    one,
                    f"at most {one.speed.high:.2f} times as fast as plain PyTorch, where {best.backend} is "
                    f"at least {best.speed.low:.2f} times",
                )
            )
        else:
            left.append(one)
    return Selection(open=left, left_out=out)
