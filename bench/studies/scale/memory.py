"""The memory of a rank in a run on many, counted, without activations."""

from bench.config.choices import DEEPSPEED, DIVIDED
from bench.results.prediction import FP32_BYTES, predict
from bench.studies.scale.traffic import DEEPSPEED_BUCKET, MAX_LIVE


def predict_memory(
    sharding: str, *, parameters: int, trainable: int, ranks: int, on_cuda: bool, optimizer: str = "adamw"
) -> float:
    """Bytes of weights, gradients, the optimizer's states, and of what they are copied to to be sent."""
    states = predict(
        parameters=parameters,
        trainable=trainable,
        optimizer=optimizer,
        sharding=sharding,
        world_size=ranks,
        device="cuda" if on_cuda else "cpu",
    )
    buckets = bucket_bytes(sharding, parameters=parameters, trainable=trainable, ranks=ranks, on_cuda=on_cuda)
    return states.weights + states.gradients + states.optimizer + buckets


def bucket_bytes(sharding: str, *, parameters: int, trainable: int, ranks: int, on_cuda: bool) -> float:
    """Memory of buffers for sending and receiving.

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
            gathered = min(MAX_LIVE, parameters) if ranks > 1 else 0
            return FP32_BYTES * ((2 if on_cuda else 3) * bucket + part + gathered)
        return FP32_BYTES * ((2 if on_cuda else 1) * bucket + part)
    if sharding in ("ddp", "zero_redundancy") and ranks > 1:
        return FP32_BYTES * trainable
    return 0.0
