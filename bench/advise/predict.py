"""Predicts what a configuration needs and reaches, from short trials and the effects that were measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.advise.bounds import Bounds, exactly
from bench.advise.effects import Choice, Effects
from bench.advise.plain import PlainTraining, divisors
from bench.config.choices import OTHER_UPDATES, SIXTEEN_BITS
from bench.config.engine_options import format_engine_options
from bench.config.schema import Config
from bench.results import prediction
from bench.results.prediction import BYTES_OF_16_BITS, FP32_BYTES
from bench.setup import stacks
from bench.sweeps.fit import ModelTrial

ACTIVATIONS: Mapping[Choice, Bounds] = {
    ("checkpointing", "1"): Bounds(0.05, 0.8),
    ("precision", "bf16"): Bounds(0.5, 1.0),
    ("precision", "fp16"): Bounds(0.5, 1.0),
    ("attention", "sdpa"): Bounds(0.5, 1.0),
    ("engine", "compile"): Bounds(0.5, 1.3),
    ("engine", "ortmodule"): Bounds(0.6, 2.0),
}
"""What a choice does to the memory that grows with the samples trained at once, as a multiple.

Wide bounds, since they only decide what is measured."""

MEMORY_TOLERANCE = 0.1
"""By what share memory may differ from what is added up: what allocators keep, and buffers."""

INTERPLAY = 0.2
"""By what share several choices together may do more or less than the product of each alone."""

PLAIN = "pytorch"
"""The backend of the trials."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One configuration."""

    backend: str
    changes: Sequence[Choice]  # what it has otherwise than plain PyTorch
    parts: int  # in which each micro-batch is trained, one after the other
    memory: Bounds  # of all ranks, in bytes
    sample_memory: Bounds  # of it, what each sample that is trained at once takes
    speed: Bounds  # over plain PyTorch's with undivided micro-batches
    wrong: str = ""  # how one of its choices ended on this machine where it was never timed; empty otherwise
    # whether it has plain PyTorch's precision and AdamW's update: it may be a reference
    keeps_update: bool = True


def choices_of(config: Config, name: str) -> dict[str, str]:
    """What a backend is, by the names and values of the results' columns; its parts are decided here."""
    backend = config.backends[name]
    return {
        "engine": backend.engine,
        "engine_options": format_engine_options(backend.engine_options),
        "optimizer": backend.optimizer_on(config.device.type),
        "sharding": backend.sharding,
        "attention": config.attention_of(name),
        "stack": backend.stack or stacks.own(),
        "precision": config.precision_of(name).name,
        "checkpointing": str(int(config.checkpointing_of(name))),
        "loop": backend.loop,
        "loader": config.data_of(name).loader_on(config.device.type),
    }


def predict(
    config: Config, name: str, plain: Config, training: PlainTraining, *, effects: Effects, limit_bytes: float
) -> Candidate:
    """Return what a backend needs and reaches, its micro-batches in as few parts as fit.

    Args:
        config: of the comparison.
        name: of the backend.
        plain: of the trials, which have the backend `PLAIN`.
        training: what those have shown.
        effects: of choices on this machine.
        limit_bytes: that all ranks together may take.
    """
    base = choices_of(plain, PLAIN)
    changes = [one for one in choices_of(config, name).items() if one[1] != base[one[0]]]
    memory, sample_memory = _memory(config, name, changes, training)
    possible = divisors(config.micro_batch)
    needs = {parts: memory + sample_memory * exactly(training.samples_at_once(parts)) for parts in possible}
    parts = next((one for one in possible if needs[one].middle <= limit_bytes), possible[-1])
    speed = _speed(changes, effects)
    return Candidate(
        backend=name,
        changes=changes,
        parts=parts,
        memory=needs[parts],
        sample_memory=sample_memory,
        speed=speed * training.speed_in_parts(parts, speed),
        wrong=next((effects.wrong[one] for one in changes if one in effects.wrong), ""),
        keeps_update="precision" not in dict(changes)
        and config.backends[name].optimizer_on(config.device.type) not in OTHER_UPDATES,
    )


def _memory(
    config: Config, name: str, changes: Sequence[Choice], training: PlainTraining
) -> tuple[Bounds, Bounds]:
    """Bytes of all ranks before the first sample, and for each sample that is trained at once."""
    sample = exactly(training.sample_bytes)
    for choice in changes:
        sample *= ACTIVATIONS.get(choice, Bounds(1.0, 1.0))
    held = held_bytes(config, name, training.trial) + training.trial.runtime_bytes + training.fixed_bytes
    # Autocast keeps the weights that it has cast until the step ends.
    cast = (
        training.trial.parameters * BYTES_OF_16_BITS if config.precision_of(name).name in SIXTEEN_BITS else 0
    )
    ranks = config.device.world_size
    of_all = Bounds(ranks * (1 - MEMORY_TOLERANCE), ranks * (1 + MEMORY_TOLERANCE))
    return of_all * Bounds(held, held + cast), of_all * sample


def held_bytes(config: Config, name: str, trial: ModelTrial) -> float:
    """Weights, gradients and states of a rank, and DDP's buckets, which hold the gradients once more."""
    backend, ranks = config.backends[name], config.device.world_size
    trainable = trial.parameters if trial.trainable is None else trial.trainable
    needed = prediction.predict(
        parameters=trial.parameters,
        trainable=trainable,
        optimizer=backend.optimizer_on(config.device.type),
        sharding=backend.sharding,
        world_size=ranks,
        device=config.device.type,
    )
    buckets = FP32_BYTES * trainable if ranks > 1 and backend.sharding == "ddp" else 0
    return float(needed.weights + needed.gradients + needed.optimizer + buckets)


def _speed(changes: Sequence[Choice], effects: Effects) -> Bounds:
    """Over plain PyTorch, both with undivided micro-batches."""
    speed, factors = effects.of(set(changes))
    return speed * Bounds(1 - INTERPLAY, 1 + INTERPLAY) if factors > 1 else speed


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What may be the best, and what cannot."""

    open: Sequence[Candidate]  # the former
    left_out: Sequence[tuple[Candidate, str]]  # the latter, each with the reason


def select(candidates: Sequence[Candidate], limit_bytes: float) -> Selection:
    """Divide candidates into those that may be the best, and those that cannot.

    Args:
        candidates: all of them.
        limit_bytes: that all ranks together may take.
    """
    fitting = [one for one in candidates if not one.wrong and one.memory.high <= limit_bytes]
    best = max(fitting, key=lambda one: one.speed.low, default=None)
    reasons = [(one, _why_not(one, best, limit_bytes)) for one in candidates]
    return Selection(
        open=[one for one, reason in reasons if not reason],
        left_out=[(one, reason) for one, reason in reasons if reason],
    )


def _why_not(one: Candidate, best: Candidate | None, limit_bytes: float) -> str:
    """Why a candidate cannot be the best; empty if it may be."""
    if one.wrong:
        return f"one of its choices ended as {one.wrong} on this machine"
    if one.memory.low > limit_bytes:
        return f"it needs at least {one.memory.low / 2**30:.1f} GiB"
    if best is not None and one.speed.high < best.speed.low:
        return (
            f"at most {one.speed.high:.2f} times as fast as plain PyTorch, where {best.backend} is at least "
            f"{best.speed.low:.2f} times"
        )
    return ""
