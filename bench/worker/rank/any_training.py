"""What a rank needs of a training, whatever it trains with; imports no framework."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

TORCH_PEAKS = ("torch_peak_allocated_bytes", "torch_peak_reserved_bytes")


class AnyTraining(Protocol):
    """A model that is ready to step. Without more words it is trained on one rank of a CPU, without torch.

    Attributes:
        imported_at: what `time.perf_counter` said when all libraries were imported, before there was a model.
        loaded_bytes: of the files that it starts from.
        weights: what of a checkpoint was not used, and what was new for the task.
        absent: why a figure of `torch_peaks` is None, by its name.
        feed: where batches come from, a `bench.worker.workload.feed.Feed`.
        engine: what executes; it has `library` and `status_of` of `bench.worker.engines.Engine`.
    """

    imported_at: float
    host_runtime_bytes: int | None
    loaded_bytes: int
    attention: str
    weights: str
    parameters: int
    trainable_parameters: int
    absent: dict[str, str]
    feed: Any
    engine: Any

    def steps(self, count: int) -> Iterable[Any]:
        """The micro-batches of the next `count` steps; a loader's are made while they are taken."""
        steps: Iterable[Any] = self.feed.steps(count)
        return steps

    def step(self, micro_batches: Any) -> Any:
        """One optimizer step; its mean loss."""

    def step_until_applied(self, micro_batches: Any) -> Any:
        """A step that changes the weights: every step of fp32 does."""
        return self.step(micro_batches)

    def use_first_batches(self, count: int) -> None:
        """From now on cycle through the first `count` micro-batches of the comparison only."""
        self.feed.repeat_first(count)

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
        """What really ran, after the first step.

        Raises:
            LaunchFailed: it is not what was asked for.
        """

    def weights_bytes(self) -> int:
        """Bytes of weights on this rank: the model's, and what the optimizer updates if that is a copy."""

    def optimizer_state_bytes(self) -> int:
        """Bytes of optimizer state on this rank."""

    def save_state(self, folder: Path) -> None:
        """Write this rank's part of a checkpoint.

        Raises:
            LaunchFailed: status `unsupported`, under a loop that keeps checkpoints of its own.
        """

    def load_state(self, folder: Path) -> None:
        """Take weights, optimizer's state, loss scaling and generators from a checkpoint."""
