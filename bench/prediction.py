"""How much memory training needs before the first activation: arithmetic on the number of parameters."""

from dataclasses import dataclass

FP32_BYTES = 4

ADAM_MOMENTS = 2
"""Running means of the gradient and of its square (Kingma & Ba 2014, arXiv:1412.6980)."""


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Bytes on one rank; what is measured above them are activations, buffers and the libraries' own.

    Attributes:
        weights: of all parameters, trained or frozen; ZeRO-1 adds a copy of this rank's trained part, from
            which it updates (DeepSpeed's single_partition_of_fp32_groups).
        gradients: of the trained parameters; whole on every rank, under ZeRO-1, too.
        optimizer: AdamW's two moments, under ZeRO-1 of this rank's part alone.
    """

    weights: int
    gradients: int
    optimizer: int


def predict(*, parameters: int, trainable: int, sharding: str, world_size: int) -> Predicted:
    """What every rank holds.

    Weights, gradients and states are fp32 under every precision: 16-bit copies are made by autocast and
    live as activations do. Source of ZeRO's share: Rajbhandari et al. 2019, arXiv:1910.02054, section 5.

    Args:
        parameters: of the model, tied ones counted once.
        trainable: those that are trained.
        sharding: of the backend.
        world_size: ranks.
    """
    share = -(-trainable // world_size) if sharding == "zero1" else trainable
    copy = share if sharding == "zero1" else 0
    return Predicted(
        weights=FP32_BYTES * (parameters + copy),
        gradients=FP32_BYTES * trainable,
        optimizer=ADAM_MOMENTS * FP32_BYTES * share,
    )
