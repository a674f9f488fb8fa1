"""Predicts what a configuration needs and reaches, from short trials and the effects that were measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.advise.bounds import Bounds, exactly
from bench.advise.effects import Choice, Effects
from bench.advise.plain import PLAIN, PlainTraining, divisors, held_bytes
from bench.config.choices import BEST_ATTENTION, OTHER_UPDATES, SIXTEEN_BITS
from bench.config.engine_options import format_engine_options
from bench.config.schema import Config
from bench.results.prediction import BYTES_OF_16_BITS
from bench.setup import stacks

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

INTERPLAY = 0.2  # by what share several choices together may do more or less than the product of each alone


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
    backend, attention = config.backends[name], config.attention_of(name)
    return {
        "engine": backend.engine,
        "engine_options": format_engine_options(backend.engine_options),
        "optimizer": backend.optimizer_on(config.device.type),
        "sharding": backend.sharding,
        "attention": "sdpa" if attention == BEST_ATTENTION else attention,  # predicted; the row says it
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

    `plain` is the configuration of the trials. All ranks together may take `limit_bytes`.
    """
    base = choices_of(plain, PLAIN)
    changes = [choice for choice in choices_of(config, name).items() if choice[1] != base[choice[0]]]
    memory, sample_memory = _memory(config, name, changes, training)
    possible = divisors(config.micro_batch)
    needs = {parts: memory + sample_memory * exactly(training.samples_at_once(parts)) for parts in possible}
    parts = next((parts for parts in possible if needs[parts].middle <= limit_bytes), possible[-1])
    speed, factors = effects.of(set(changes))  # both with undivided micro-batches
    if factors > 1:
        speed *= Bounds(1 - INTERPLAY, 1 + INTERPLAY)
    return Candidate(
        backend=name,
        changes=changes,
        parts=parts,
        memory=needs[parts],
        sample_memory=sample_memory,
        speed=speed * training.speed_in_parts(parts, speed),
        wrong=next((effects.wrong[choice] for choice in changes if choice in effects.wrong), ""),
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


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The candidates that may be the best, and those that cannot, each with the reason."""

    open: Sequence[Candidate]
    left_out: Sequence[tuple[Candidate, str]]


def select(candidates: Sequence[Candidate], limit_bytes: float) -> Selection:
    """Divide candidates into those that may be the best, and those that cannot.

    All ranks together may take `limit_bytes`.
    """
    fitting = [each for each in candidates if not each.wrong and each.memory.high <= limit_bytes]
    best = max(fitting, key=lambda candidate: candidate.speed.low, default=None)
    reasons = [(candidate, _why_not(candidate, best, limit_bytes)) for candidate in candidates]
    return Selection(
        open=[candidate for candidate, reason in reasons if not reason],
        left_out=[(candidate, reason) for candidate, reason in reasons if reason],
    )


def _why_not(candidate: Candidate, best: Candidate | None, limit_bytes: float) -> str:
    """Why a candidate cannot be the best; empty if it may be."""
    speed, memory = candidate.speed, candidate.memory
    if candidate.wrong:
        return f"one of its choices ended as {candidate.wrong} on this machine"
    if memory.low > limit_bytes:
        return f"it needs at least {memory.low / 2**30:.1f} GiB"
    if best is None or speed.high >= best.speed.low:
        return ""
    at_most = f"at most {speed.high:.2f} times as fast as plain PyTorch"
    return f"{at_most}, where {best.backend} is at least {best.speed.low:.2f} times"
