"""What a rank holds on many ranks: counted where it can be, and what was measured for the rest."""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.analysis.scale.sendings import DEEPSPEED_BUCKET, MOST_LIVE
from bench.config.choices import DEEPSPEED, DIVIDED
from bench.results.prediction import FP32_BYTES, predict
from bench.statistics.intervals import Floats


@dataclass(frozen=True, kw_only=True)
class Held:
    """Bytes on a rank, each of shape (world sizes,)."""

    states: Floats  # weights, gradients and the optimizer's states, as `bench.results.prediction` counts them
    buckets: Floats  # what gradients and weights are copied to before they are sent
    activations: Floats  # what the backward pass needs of the forward pass, and whatever else training takes

    @property
    def total(self) -> Floats:
        """All bytes."""
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
    """What a rank holds at its peak, at each of these world sizes.

    Args:
        sharding, optimizer: of the backend.
        parameters: of the model, tied ones once.
        trainable: those that are trained.
        activations: bytes of one micro-batch, and of whatever else does not depend on the world size.
        world_sizes: to predict for.
        device: cpu or cuda.
    """
    states, buckets = [], []
    for ranks in world_sizes:
        needed = predict(
            parameters=parameters,
            trainable=trainable,
            optimizer=optimizer,
            sharding=sharding,
            world_size=ranks,
            device=device,
        )
        states.append(float(needed.weights + needed.gradients + needed.optimizer))
        buckets.append(float(_bucket_bytes(sharding, parameters, trainable, ranks, on_cuda=device == "cuda")))
    return Held(
        states=np.array(states),
        buckets=np.array(buckets),
        activations=np.full(len(states), float(activations)),
    )


def _bucket_bytes(sharding: str, parameters: int, trainable: int, ranks: int, *, on_cuda: bool) -> float:
    """What is held to be sent, or was received.

    DDP keeps every gradient a second time, in its buckets (without gradient_as_bucket_view, its default).
    DeepSpeed keeps a bucket, two of them where it sends one while it fills the other, and this rank's part
    of the averaged gradients. Its stage 3 fills one bucket and puts its tensors in another order in a second
    (reduce_scatter_coalesced), which gloo copies once more, and keeps weights gathered, up to
    stage3_max_live_parameters. FSDP2 keeps a layer, which is small beside the rest and left out.
    """
    if sharding in DEEPSPEED:
        bucket = min(DEEPSPEED_BUCKET, trainable)
        part = trainable / ranks
        if DIVIDED[sharding][-1] == "weights":
            gathered = min(MOST_LIVE, parameters) if ranks > 1 else 0
            return FP32_BYTES * ((2 if on_cuda else 3) * bucket + part + gathered)
        return FP32_BYTES * ((2 if on_cuda else 1) * bucket + part)
    if sharding in ("ddp", "zero_redundancy") and ranks > 1:
        return FP32_BYTES * trainable
    return 0.0


def largest_layers(held: Callable[[int], float], *, memory_bytes: float, most: int = 10_000) -> int:
    """How many layers fit into a rank's memory, up to `most`; 0 if not even one does.

    `held` gives the bytes of a rank with so many layers, never less with more of them.
    """
    return bisect.bisect_right(range(1, most + 1), memory_bytes, key=held)
