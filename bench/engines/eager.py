"""Plain PyTorch."""

from typing import Any

import torch

from bench.errors import LaunchFailed


class Engine:
    """Leaves the module as it is."""

    def wrap(self, model: torch.nn.Module, *, threads: int | None) -> torch.nn.Module:  # noqa: ARG002
        """Nothing to wrap: torch's own thread count was set when the process started."""
        return model

    def proof(self, loss_function: str) -> dict[str, Any]:
        """The loss must come out of torch's own autograd."""
        if "ORTModule" in loss_function or "CompiledFunction" in loss_function:
            raise LaunchFailed("invalid", f"eager ran through {loss_function}")
        return {"loss_function": loss_function}

    def status_of(self, error: Exception) -> str | None:  # noqa: ARG002
        """Eager PyTorch runs whatever transformers can build."""
        return None
