"""Predicts the memory that training needs before the first activation, from the number of parameters."""

from dataclasses import dataclass

from bench.config.choices import DEEPSPEED, DIVIDED, IN_16_BITS_ALONE, OFFLOADED

FP32_BYTES, BYTES_OF_16_BITS = 4, 2

ADAMW_STATE_BYTES = 8
"""Bytes per parameter: running means of the gradient and of its square in fp32 (Kingma & Ba 2014,
arXiv:1412.6980)."""

STATE_BYTES = {
    "adafactor": 0,  # a row and a column for each matrix
    "adafactor_transformers": 0,
    "adamw_8bit_bitsandbytes": 2,
    "adamw_8bit_torchao": 2,
    "adamw_4bit_torchao": 1,
}
"""Bytes per parameter of the optimizers that hold less; the scales of blocks not counted."""


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Bytes on one rank; memory measured beyond them holds activations, buffers and libraries' own data."""

    # of all parameters, trained or frozen; DeepSpeed adds a copy of this rank's trained part, from which it
    # updates (single_partition_of_fp32_groups, fp32_partitioned_groups_flat)
    weights: int
    gradients: int  # of the trained parameters
    optimizer: int  # its states


def predict(
    *, parameters: int, trainable: int, optimizer: str, sharding: str, world_size: int, device: str
) -> Predicted:
    """The bytes that every rank holds on its device before the first activation.

    Weights, gradients and states are fp32 under every precision: 16-bit copies are made by autocast or FSDP2
    and live like activations. Only DeepSpeed's own modes have 16-bit weights and gradients. Source of ZeRO's
    share: Rajbhandari et al. 2019, arXiv:1910.02054, section 5.
    """
    divided = DIVIDED[sharding]
    if device == "cuda" and sharding in OFFLOADED:
        weights = 0 if "weights" in divided else FP32_BYTES * parameters
        return Predicted(weights=weights, gradients=0, optimizer=0)

    def count_on_a_rank(kind: str, count: int) -> int:
        return -(-count // world_size) if kind in divided else count

    held_bytes = BYTES_OF_16_BITS if sharding in IN_16_BITS_ALONE else FP32_BYTES
    updated_copy = count_on_a_rank("optimizer", trainable) if sharding in DEEPSPEED else 0
    return Predicted(
        weights=held_bytes * count_on_a_rank("weights", parameters) + FP32_BYTES * updated_copy,
        gradients=held_bytes * count_on_a_rank("gradients", trainable),
        optimizer=STATE_BYTES.get(optimizer, ADAMW_STATE_BYTES) * count_on_a_rank("optimizer", trainable),
    )
