"""A backend: the engine, the optimizer and the sharding that train the model."""

from dataclasses import dataclass, field
from typing import Any

from bench.config.choices import (
    ATTENTIONS,
    BEST_ATTENTION,
    ENGINES,
    LOOPS,
    OPTIMIZERS,
    PRECISIONS,
    SHARDINGS,
)
from bench.config.fields import at_least, one_of
from bench.setup.recipes import STACKS


@dataclass(kw_only=True)
class Backend:
    """Engine, optimizer and sharding, on a stack; and in what else it differs from its comparison.

    `Config` checks all of it, since it knows the backend's name.
    """

    engine: str = one_of(*ENGINES)
    engine_options: dict[str, Any] = field(default_factory=dict)  # bench.config.engine_options
    optimizer: str = one_of(*OPTIMIZERS)
    sharding: str = one_of(*SHARDINGS)
    # whose Python its ranks run on; what is null here and below is the comparison's
    stack: str | None = one_of(*STACKS, default=None)
    attention: str | None = one_of(*ATTENTIONS, BEST_ATTENTION, default=None)
    precision: str | None = one_of(*PRECISIONS, default=None)
    checkpointing: bool | None = None
    workers: int | None = None  # of `Data`, as is the next
    pinned_memory: bool | None = None
    loop: str = one_of(*LOOPS, default="bare")  # what makes the steps: bench/worker/loops/
    accumulate: int = at_least(1, 1)  # parts in which each micro-batch is trained; its samples stay the same
    slowed_by: float = at_least(0, 0.0)  # each step waits this share of its own time: for `make selftest`

    def optimizer_on(self, device: str) -> str:
        """Return the optimizer that runs on `device`.

        ORT's FusedAdam has no CPU kernel; torch's fused AdamW, which has one, stands in for it.
        """
        if self.optimizer == "ort_fused_adam" and device == "cpu":
            return "adamw_fused"
        return self.optimizer
