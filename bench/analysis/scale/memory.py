"""What a rank holds on many ranks: counted where it can be, and what was measured for the rest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.analysis.scale.sendings import DEEPSPEED_BUCKET
from bench.config.choices import DEEPSPEED
from bench.results.prediction import predict

FP32_BYTES = 4

Bytes = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Held:
    """Bytes on a rank, each of shape (world sizes,).

    Attributes:
        states: weights, gradients and the optimizer's states, as `bench.results.prediction` counts them.
        buckets: what gradients and weights are copied to before they are sent.
        activations: what the backward pass needs of the forward pass, and whatever else training takes.
    """

    states: Bytes
    buckets: Bytes
    activations: Bytes

    @property
    def total(self) -> Bytes:
        """All of it."""
        return self.states + self.buckets + self.activations


def predict_memory(
    *,
    sharding: str,
    optimizer: str,
    parameters: int,
    trainable: int,
    activations: float,
    world_sizes: Sequence[int],
    device: str,
) -> Held:
    """What a rank holds at its peak.

    Args:
        sharding: of the backend.
        optimizer: likewise.
        parameters: of the model, tied ones once.
        trainable: those that are trained.
        activations: bytes of one micro-batch, and of whatever else does not depend on the world size.
        world_sizes: to predict for.
        device: cpu or cuda.
    """
    each = [
        predict(
            parameters=parameters,
            trainable=trainable,
            optimizer=optimizer,
            sharding=sharding,
            world_size=ranks,
            device=device,
        )
        for ranks in world_sizes
    ]
    states = [one.weights + one.gradients + one.optimizer for one in each]
    buckets = [_buckets(sharding, trainable, ranks) for ranks in world_sizes]
    return Held(
        states=np.array(states, dtype=float),
        buckets=np.array(buckets, dtype=float),
        activations=np.full(len(states), float(activations)),
    )


def _buckets(sharding: str, trainable: int, ranks: int) -> float:
    """DDP keeps every gradient a second time, in its buckets (without gradient_as_bucket_view, its default).

    DeepSpeed keeps a bucket, and after the last one this rank's part of the averaged gradients; FSDP2 a
    layer's, which is small beside the rest and left out.
    """
    if sharding in DEEPSPEED:
        return FP32_BYTES * (min(DEEPSPEED_BUCKET, trainable) + trainable / ranks)
    if sharding in ("ddp", "zero_redundancy") and ranks > 1:
        return FP32_BYTES * trainable
    return 0.0


def largest_layers(*, rest_bytes: float, layer_bytes: float, memory_bytes: float, most: int = 10_000) -> int:
    """How many layers fit; 0 if not even what is beside them does.

    Args:
        rest_bytes: what a rank holds without any layer.
        layer_bytes: what each layer adds.
        memory_bytes: that it may hold.
        most: layers that make sense.
    """
    if rest_bytes > memory_bytes:
        return 0
    return int(min(most, (memory_bytes - rest_bytes) // layer_bytes))
