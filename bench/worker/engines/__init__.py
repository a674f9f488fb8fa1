"""What executes the forward and backward pass: one module per engine, imported only by ranks that use it."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

import torch

from bench.config.engine_options import engine_variables
from bench.worker.observe.engine_profile import EngineProfile
from bench.worker.observe.products import Multiply


class Engine(Protocol):
    """Makes a module run its way, and proves afterwards that it did.

    Engines whose kernels are PyTorch's own derive from `bench.worker.observe.products.TorchProducts`, which
    has all that is asked about products and profiles.

    Attributes:
        library: what multiplies matrices for it, such as `torch`; its rate is measured once.
        options: `engine_options` of the backend.
    """

    library: str
    options: Mapping[str, Any]

    def wrap(self, model: torch.nn.Module, *, threads: int | None, checkpointing: bool) -> torch.nn.Module:
        """The module to train; the engine keeps to `threads` CPU threads, or to its own default if None.

        With `checkpointing` it recomputes activations in the backward pass instead of keeping them; `model`
        comes with transformers' gradient checkpointing switched on then.
        """

    def enable_own_profile(self) -> None:
        """Before `wrap`: keep a profile of every kernel from now on, or name them all for torch's."""

    def own_profile(self) -> EngineProfile:
        """Ends the engine's own profile; empty for an engine whose kernels are in torch's."""

    def proof(self, loss_function: str) -> dict[str, Any]:
        """What ran, after the first step.

        Args:
            loss_function: class name of the first loss's `grad_fn`.

        Raises:
            LaunchFailed: status `fallback`, if something else ran, or nothing is recomputed that should be.
        """

    def status_of(self, error: Exception) -> str | None:
        """`unsupported` if the error says that the engine cannot run this model, else None."""

    def prepare_product(self, left: torch.Tensor, right: torch.Tensor, device: torch.device) -> Multiply:
        """A function that multiplies two matrices, or two batches of them, as the engine does in training.

        Nothing is copied or allocated at a call. Asked for after `wrap`.

        Args:
            left: shape ([batch,] rows, inner), on the device and in the precision of training.
            right: shape ([batch,] inner, columns).
        """

    def describe_library(self) -> dict[str, str]:
        """Version and build of `library`, for the record."""


def make(name: str, options: Mapping[str, Any] | None = None) -> Engine:
    """The engine called `name` with its options, some of which it reads from this process's environment."""
    os.environ.update(engine_variables(name, options or {}))
    engine: Engine = import_module(f"bench.worker.engines.{name}").Engine()
    engine.options = dict(options or {})
    return engine
