"""What executes the forward and backward pass: one module per engine, imported only by ranks that use it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from bench.worker import load_choice
from bench.worker.workload import model as models


class TorchEngine(ABC):
    """Makes a module run its way, by default PyTorch's, and proves afterwards that it did."""

    library = "torch"  # multiplies matrices; its rate is measured once
    options: Mapping[str, Any]  # `engine_options` of the backend
    model: torch.nn.Module  # that `wrap` was given
    threads: int | None  # as `wrap` was asked; those of torch were set when the process started
    checkpointing: bool  # as `wrap` was asked

    def wrap(self, model: torch.nn.Module, *, threads: int | None, checkpointing: bool) -> torch.nn.Module:
        """The module to train, on `threads` CPU threads, or on the engine's own default if None.

        With `checkpointing` the model comes with transformers' gradient checkpointing switched on.
        """
        self.model, self.threads, self.checkpointing = model, threads, checkpointing
        return model

    def enable_own_profile(self) -> None:
        """Called before `wrap`: profile every kernel from now on, or name all for torch's profiler."""
        return

    def own_profile(self) -> tuple[Sequence[dict[str, Any]], int]:
        """Events that torch's profile lacks, and their beginning in nanoseconds of the machine's clock."""
        return (), 0

    @abstractmethod
    def proof(self, loss_function: str) -> dict[str, Any]:
        """What ran in the first step, by the class of its loss's `grad_fn`; `fallback` if not this engine."""

    def status_of(self, error: Exception) -> str | None:  # noqa: ARG002 - PyTorch runs what can be built
        """`unsupported` if the error says that the engine cannot run this model, else None."""
        return None

    def switch_off_dropout(self, model: torch.nn.Module) -> None:
        """Switch off dropout in a trained model, as this engine runs it."""
        models.silence(model)


def make(name: str, options: Mapping[str, Any] | None = None) -> TorchEngine:
    """The engine called `name`, with the options whose variables this process has (`engine_variables`)."""
    engine: TorchEngine = load_choice("engines", name).Engine()
    engine.options = dict(options or {})
    return engine
