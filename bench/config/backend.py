"""A backend: the engine, the optimizer and the sharding that train the model."""

from dataclasses import dataclass


@dataclass(kw_only=True)
class Backend:
    """Three independent choices, on a stack; a backend is data. `Config`, which knows its name, checks it."""

    engine: str
    optimizer: str
    sharding: str
    stack: str | None = None  # whose interpreter its ranks run on; that of the comparison if null
    attention: str | None = None  # another than the comparison's, if that is the point of it
    slowed_by: float = 0.0  # share of its own time that every step waits in vain: for `make selftest`

    def optimizer_on(self, device: str) -> str:
        """The optimizer that runs on `device`.

        ORT's FusedAdam has no CPU kernel; torch's fused AdamW, which has one, stands in for it.
        """
        if self.optimizer == "ort_fused_adam" and device == "cpu":
            return "adamw_fused"
        return self.optimizer
