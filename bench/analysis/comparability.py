"""Which columns must be equal before a speed-up may be printed, and which may differ."""

MUST_EQUAL = (
    "model",
    "size",
    "parameters",
    "trainable_parameters",
    "task",
    "data",
    "lengths",
    "batch_rule",
    "global_batch",
    "seq_len",
    "precision",
    "checkpointing",
    "memory_limit_gib",
    "device",
    "nodes",
    "world_size",
    "threads_per_rank",
    "cores_per_rank",
    "allocator",
)
"""Columns in which a backend must equal the reference before a speed-up may be printed.

The environment must be equal, too, but for what another stack brings; it is said in what it differs.
"""

CHOICES = ("engine", "optimizer", "sharding", "attention", "stack")
"""Columns that say what a backend is."""

MAY_DIFFER = ("attention", "stack")
"""Columns in which a backend may differ from the reference; that is said beside the speed-up."""

MOST_DIFFERENCES = 4
"""Entries of the environment that are named where a speed-up is refused because of them."""
