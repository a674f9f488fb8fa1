"""A backend: engine, optimizer and sharding that train the model; and which of several is the reference."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.config import choices
from bench.config.fields import at_least, one_of
from bench.setup.recipes import STACKS

DEFAULT_REFERENCE = "pytorch"  # the reference wherever it is among the backends


@dataclass(kw_only=True)
class Backend:
    """Engine, optimizer and sharding, on a stack; and its other differences from the comparison.

    `Config` checks all of it, since it knows the backend's name.
    """

    engine: str = one_of(*choices.ENGINES)
    engine_options: dict[str, Any] = field(default_factory=dict)  # bench.config.engine_options
    optimizer: str = one_of(*choices.OPTIMIZERS)
    sharding: str = one_of(*choices.SHARDINGS)
    # whose Python its ranks run on; what is null here and below is the comparison's
    stack: str | None = one_of(*STACKS, default=None)
    attention: str | None = one_of(*choices.ATTENTIONS, choices.BEST_ATTENTION, default=None)
    precision: str | None = one_of(*choices.PRECISIONS, default=None)
    checkpointing: bool | None = None
    workers: int | None = at_least(0, None)  # of `Data`, as is the next
    pinned_memory: bool | None = None
    loop: str = one_of(*choices.LOOPS, default="bare")  # what makes the steps: bench/worker/loops/
    accumulate: int = at_least(1, 1)  # parts in which each micro-batch is trained; its samples stay the same
    slowed_by: float = at_least(0, 0.0)  # each step waits this share of its time: for `make selftest`

    def optimizer_on(self, device: str) -> str:
        """Return the optimizer that runs on `device`.

        ORT's FusedAdam has no CPU kernel; torch's fused AdamW, which has one, stands in for it.
        """
        return "adamw_fused" if (self.optimizer, device) == ("ort_fused_adam", "cpu") else self.optimizer


def choose_reference(backends: Iterable[object]) -> str:
    """Return the name of the reference: `pytorch`, or the first of these if `pytorch` is not among them."""
    names = [str(name) for name in backends]
    return DEFAULT_REFERENCE if DEFAULT_REFERENCE in names or not names else names[0]


def describe_reference(reference: str, backends: Collection[str]) -> str:
    """A sentence if speed-ups are not over `pytorch`, as a reader would expect; else empty."""
    if reference == DEFAULT_REFERENCE:
        return ""
    why = "" if DEFAULT_REFERENCE in backends else f", since {DEFAULT_REFERENCE} is not among the backends"
    return f"speed-ups are over {reference}{why}"
