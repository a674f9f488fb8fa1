"""Shardings in the field's words, in the order of tables and legends."""

SHARDINGS = {
    "ddp": "DDP",
    "zero_redundancy": "ZeroRedundancyOptimizer",
    "zero1": "ZeRO-1",
    "zero1_native": "ZeRO-1 in 16 bits alone",
    "zero2": "ZeRO-2",
    "zero3": "ZeRO-3",
    "zero2_offload": "ZeRO-2, offloaded",
    "zero3_offload": "ZeRO-3, offloaded",
    "fsdp2": "FSDP2",
}


def name_sharding(sharding: str) -> str:
    """Name a sharding in the field's words; an unknown one as it is."""
    return SHARDINGS.get(sharding, sharding)
