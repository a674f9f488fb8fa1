"""What a rank needs of a model that is ready to step."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bench.errors import LaunchFailed

TORCH_PEAKS = ("torch_peak_allocated_bytes", "torch_peak_reserved_bytes")


class AnyTraining(Protocol):
    """A model that is ready to step. Without more words it is trained on one rank of a CPU, without torch."""

    imported_at: float  # by `time.perf_counter`: all libraries were imported, and there was no model yet
    facts: dict[str, Any]  # of the model and its batches, by the names of `messages.Built`
    absent: dict[str, str]  # why a figure of `torch_peaks` is None, by its name
    feed: Any  # a `bench.worker.workload.feeds.Feed`
    engine: Any  # with `status_of` of `bench.worker.engines.TorchEngine`

    def steps(self, count: int) -> Iterable[Any]:
        """The micro-batches of the next `count` steps; a loader's are made while they are taken."""
        steps: Iterable[Any] = self.feed.steps(count)
        return steps

    def size_of(self, micro_batch: Any) -> tuple[int, int | None]:
        """Samples and tokens of a micro-batch, as `size_of`."""
        return size_of({name: tensor.shape for name, tensor in micro_batch.items()})

    def step(self, micro_batches: Any) -> Any:
        """One optimizer step; its mean loss."""

    def step_until_applied(self, micro_batches: Any) -> Any:
        """A step that changes the weights: every step of fp32 does."""
        return self.step(micro_batches)

    def compute_loss(self, parts: Any) -> float:
        """The mean loss of a micro-batch's parts as in training; nothing is updated."""

    def use_without_dropout(self, weights: Path, *, saves: bool) -> None:  # noqa: ARG002
        """Switch dropout off, and take the weights of a file, or write one's own."""
        raise LaunchFailed("unsupported", "it keeps its dropout")

    def random_states(self) -> Any:
        """Those of all generators of random numbers that training may draw from."""
        return None

    def room_for_losses(self, steps: int) -> Any:
        """Where the losses of `steps` steps go, shape (steps,)."""

    def synchronize(self) -> None:
        """Wait until the device has done everything it was given."""
        return

    def barrier(self) -> None:
        """Wait until every rank is here."""
        return

    def reset_peaks(self) -> None:
        """Start torch's peak counters anew."""
        return

    def free_cached(self) -> None:
        """Release what torch's caching allocator keeps unused."""
        return

    def allocator_retries(self) -> int | None:
        """How often torch's allocator freed all it kept, and tried again; None where there is none."""
        return None

    def torch_peaks(self) -> tuple[int | None, int | None]:
        """Peak allocated and reserved bytes of torch's caching allocator; None where there is none."""
        return None, None

    def loss_scaling(self) -> dict[str, Any]:
        """The loss's scale, and how many steps were skipped since this was asked before; None but in fp16."""
        return {"loss_scale": None, "skipped_steps": None}

    def proof(self) -> dict[str, Any]:
        """What really ran, after the first step; `LaunchFailed` if it is not what was asked for."""

    def weights_bytes(self) -> int:
        """Bytes of weights on this rank: the model's, and what the optimizer updates if that is a copy."""

    def optimizer_state_bytes(self) -> int:
        """Bytes of optimizer state on this rank."""

    def save_state(self, folder: Path) -> None:
        """Write this rank's part of a checkpoint; `unsupported` under a loop that keeps its own."""

    def load_state(self, folder: Path) -> None:
        """Take weights, optimizer's state, loss scaling and generators from a checkpoint."""


def size_of(shapes: Mapping[str, Sequence[int]]) -> tuple[int, int | None]:
    """Samples and tokens, padding included, by the inputs' shapes; of a sample's choices those of one."""
    samples, ids = next(iter(shapes.values()))[0], shapes.get("input_ids")
    return samples, ids[0] * ids[-1] if ids and len(ids) > 1 else None
