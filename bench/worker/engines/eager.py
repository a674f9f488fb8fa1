"""PyTorch as it is: each operator runs as soon as it is called."""

from typing import Any

from bench.errors import LaunchFailed
from bench.worker.engines import TorchEngine


class Engine(TorchEngine):
    """Leaves the module as it is."""

    def proof(self, loss_function: str) -> dict[str, Any]:
        """The loss must come out of torch's own autograd; layers are checkpointed exactly if configured."""
        if "ORTModule" in loss_function or "CompiledFunction" in loss_function:
            raise LaunchFailed("invalid", f"eager ran through {loss_function}")
        checkpointed = [
            name
            for name, part in self.model.named_modules()
            if getattr(part, "gradient_checkpointing", False)
        ]
        if bool(checkpointed) != self.checkpointing:
            raise LaunchFailed(
                "fallback",
                f"with checkpointing={str(self.checkpointing).lower()}, PyTorch checkpoints the layers of "
                f"{', '.join(checkpointed) or 'no module'}",
            )
        return {"loss_function": loss_function, "checkpointed": checkpointed}
