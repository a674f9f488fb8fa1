"""A backend: the engine, the optimizer and the sharding that train the model."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True)
class Backend:
    """Engine, optimizer and sharding, on a stack; and in what else it differs from its comparison.

    `Config` checks all of it, since it knows the backend's name.
    """

    engine: str
    engine_options: dict[str, Any] = field(default_factory=dict)  # bench.config.engine_options
    optimizer: str
    sharding: str
    stack: str | None = None  # whose Python its ranks run on; the comparison's if null
    attention: str | None = None  # the comparison's if null
    precision: str | None = None  # likewise
    checkpointing: bool | None = None  # likewise
    loop: str = "bare"  # what makes the steps: bench/worker/loops/
    accumulate: int = 1  # parts in which each micro-batch is trained; its samples stay the same
    workers: int | None = (
        None  # processes per rank that prepare batches; the comparison's data.workers if null
    )
    pinned_memory: bool | None = None  # likewise, data.pinned_memory
    slowed_by: float = 0.0  # each step waits this share of its own time: for `make selftest`

    def optimizer_on(self, device: str) -> str:
        """Return the optimizer that runs on `device`.

        ORT's FusedAdam has no CPU kernel; torch's fused AdamW, which has one, stands in for it.
        """
        if self.optimizer == "ort_fused_adam" and device == "cpu":
            return "adamw_fused"
        return self.optimizer
