"""The columns of the results CSV: of each its type, and what holds for it.

A new column is a line here, and a value in `bench.results.rows` or a field of the record of the same name.
"""

from enum import Flag, auto

TEXT, WHOLE, REAL = "object", "Int64", "float64"
"""Types in pandas; what is blank is NaN in REAL and NA in WHOLE."""


class Rule(Flag):
    """What holds for a column."""

    NONE = 0
    EQUAL = auto()  # a backend without the reference's value has no speed-up
    SAID = auto()  # backends may differ, which is said beside the speed-up; each has one value
    CHOICE = auto()  # it defines a backend
    OWN_BATCH = auto()  # it is a result where each backend has its own largest batch
    FILES_EQUAL = auto()  # files with different values are not compared
    FILES_SAID = auto()  # two files may differ in it, which is named
    SET = auto()  # the configuration sets it, and no measurement: rows that differ are not gone on with
    TRACKED = auto()  # experiment trackers are given it as a setting
    REPEATED = auto()  # in a file it is blank where it says the same as in the row above
    ADDED = auto()  # files older than the column lack it; it is blank there
    WORKLOAD = EQUAL | FILES_EQUAL | SET


NONE, EQUAL, SAID, CHOICE, OWN_BATCH = Rule.NONE, Rule.EQUAL, Rule.SAID, Rule.CHOICE, Rule.OWN_BATCH
FILES_EQUAL, FILES_SAID, SET, WORKLOAD = Rule.FILES_EQUAL, Rule.FILES_SAID, Rule.SET, Rule.WORKLOAD
TRACKED, REPEATED, ADDED = Rule.TRACKED, Rule.REPEATED, Rule.ADDED

TABLE = {
    "schema_version": (WHOLE, NONE),
    "study": (TEXT, NONE),  # why the comparison was made: bench, reproduce, methods …
    "comparison": (TEXT, REPEATED),
    "overrides": (TEXT, REPEATED),  # JSON: those of Hydra that make it again, in order
    "command": (TEXT, TRACKED | REPEATED),  # the same as a line to type
    "status": (TEXT, NONE),
    "message": (TEXT, NONE),
    # the cause, one of bench.results.validity.REMEDIES; blank: the block is valid
    "invalid_because": (TEXT, NONE),
    "started_at": (TEXT, TRACKED),  # of the launch; ISO 8601, UTC
    "git_commit": (TEXT, FILES_SAID | TRACKED),
    "stack": (TEXT, CHOICE | SAID | FILES_SAID | TRACKED),
    "device": (TEXT, EQUAL | FILES_EQUAL | TRACKED),
    "model": (TEXT, WORKLOAD | TRACKED),
    # published, changed, mini, layers:N, pretrained, or random weights of a config.json
    "size": (TEXT, WORKLOAD | TRACKED),
    "layers": (WHOLE, SET),  # of the deepest stack; blank where the configuration does not say
    "published_layers": (WHOLE, NONE),  # of the same stack in the model as published
    "parameters": (WHOLE, EQUAL | FILES_EQUAL),
    "trainable_parameters": (WHOLE, EQUAL | FILES_EQUAL),  # fewer with LoRA
    "task": (TEXT, WORKLOAD | TRACKED),
    "data": (TEXT, WORKLOAD | TRACKED),  # synthetic, hf:<path>, or python_docs:<digest of the text>
    "lengths": (TEXT, WORKLOAD),  # the distribution of synthetic samples' lengths; blank otherwise
    "backend": (TEXT, NONE),
    "reference": (TEXT, FILES_SAID | TRACKED),  # the backend that speed-ups are measured against
    "engine": (TEXT, CHOICE),
    "engine_options": (TEXT, CHOICE),  # such as compute_optimizer=false; blank: as the engine comes
    "optimizer": (TEXT, CHOICE),
    # of torch's AdamW: for-loop, foreach or fused; else blank
    "optimizer_implementation": (TEXT, FILES_SAID),
    "sharding": (TEXT, CHOICE),
    "loop": (TEXT, CHOICE | SAID),  # what made the steps: bare, or a library's loop
    "loader": (TEXT, CHOICE | SAID),  # how batches are prepared, such as workers=2; blank: beforehand
    "slowed_by": (REAL, CHOICE),  # share of its time that every step waits on purpose: make selftest
    "precision": (TEXT, CHOICE | SAID | FILES_EQUAL | SET | TRACKED),
    "attention": (TEXT, CHOICE | SAID | FILES_EQUAL | SET),
    # 1 or 0: activations are recomputed in the backward pass
    "checkpointing": (WHOLE, CHOICE | SAID | FILES_EQUAL),
    "batch_rule": (TEXT, WORKLOAD),  # equal; max: each backend at its own largest micro-batch
    # of each backend's private memory on the host; blank: what was left
    "memory_limit_gib": (REAL, WORKLOAD | TRACKED),
    "nodes": (WHOLE, WORKLOAD | TRACKED),  # machines that the ranks are spread over
    # the limit set for the link between them; blank: no limit
    "link_gbit_per_s": (REAL, EQUAL | FILES_EQUAL),
    "world_size": (WHOLE, WORKLOAD | TRACKED),
    "micro_batch": (WHOLE, FILES_EQUAL | OWN_BATCH | TRACKED),
    "saturating_micro_batch": (WHOLE, ADDED),  # that fills the GPU, for all backends; blank: not searched for
    "grad_accum": (WHOLE, CHOICE | SAID | FILES_EQUAL | SET | TRACKED),
    "global_batch": (WHOLE, EQUAL | FILES_EQUAL | OWN_BATCH | TRACKED),
    "seq_len": (WHOLE, WORKLOAD | TRACKED),
    "padding_share": (REAL, FILES_EQUAL | OWN_BATCH),
    "threads_per_rank": (WHOLE, EQUAL | FILES_EQUAL | TRACKED),
    "cores_per_rank": (WHOLE, EQUAL | FILES_EQUAL),  # more than threads_per_rank: the threads were not held
    "allocator": (TEXT, EQUAL | FILES_SAID | TRACKED),
    # stock; full: MKL takes its full path on CPUs of every maker
    "blas": (TEXT, EQUAL | FILES_SAID | TRACKED),
    "seed": (WHOLE, FILES_SAID | TRACKED),
    "margin": (REAL, NONE),  # a ratio within 1 ± margin is `same`
    "target_half_width": (REAL, NONE),  # half-width at which launches ended; blank: their number was fixed
    # from 1; 0 is what comes before: parity, and the search for the largest batch
    "launch": (WHOLE, NONE),
    "round": (WHOLE, NONE),  # from 1; blank: the launch failed
    "position": (WHOLE, NONE),  # the backend's place in the round, from 1
    "attempt": (WHOLE, NONE),  # from 1; above it, the one before was contaminated
    "steps": (WHOLE, NONE),
    "seconds": (REAL, NONE),  # of the slowest rank
    "samples_per_s": (REAL, NONE),  # steps * global_batch / seconds
    # forward and backward, all ranks; without recomputation and optimizer
    "model_flops_per_step": (WHOLE, NONE),
    "model_flops_per_s": (REAL, NONE),  # model_flops_per_step * steps / seconds
    # of matrix products at the workload's own shapes; sum of all ranks
    "torch_matmul_flops_per_s": (REAL, NONE),
    "ort_matmul_flops_per_s": (REAL, NONE),  # the same by ONNX Runtime; blank where it does not run
    # the highest rate of any engine's products at this precision, all ranks
    "limit_flops_per_s": (REAL, NONE),
    "roofline_share": (REAL, NONE),  # model_flops_per_s / limit_flops_per_s
    "cpu_seconds": (REAL, NONE),  # user + system, sum of all ranks
    "other_cpu_seconds": (REAL, NONE),  # that other processes had of the ranks' cores
    "stolen_seconds": (REAL, NONE),  # that the hypervisor took of them
    "cpu_clock_mhz": (REAL, NONE),  # at the block's end, of a rank's fastest core; slowest rank
    "cpu_throttles": (WHOLE, NONE),  # times that a core slowed down for heat, sum of all ranks
    "page_faults": (WHOLE, NONE),  # without disk, sum of all ranks: memory touched for the first time
    # of the block, that the ranks waited for batches; slowest rank; blank: made beforehand
    "loader_s": (REAL, NONE),
    "loss_scale": (REAL, NONE),  # at the block's end; blank: the loss is not scaled
    # of the block, since gradients overflowed; blank: the loss is not scaled
    "skipped_steps": (WHOLE, NONE),
    "setup_s": (REAL, NONE),  # from here to warm_up_settled: of the launch; slowest rank
    # of setup_s, until all libraries were imported; what was before the fork included
    "import_s": (REAL, NONE),
    "first_step_s": (REAL, NONE),
    "warm_up_s": (REAL, NONE),
    "warm_up_steps": (WHOLE, NONE),
    "warm_up_settled": (WHOLE, NONE),  # 1 or 0
    # sum of all ranks, without what was imported before they were forked
    "setup_cpu_seconds": (REAL, NONE),
    "first_step_cpu_seconds": (REAL, NONE),
    "setup_host_peak_mib": (REAL, NONE),  # highest rank or device, like all peaks
    "first_step_host_peak_mib": (REAL, NONE),
    "host_peak_mib": (REAL, NONE),  # of the block, like all peaks without another phase in their name
    # of a rank's memory without pages of files: what training holds
    "setup_host_anonymous_peak_mib": (REAL, ADDED),
    "first_step_host_anonymous_peak_mib": (REAL, ADDED),
    "host_anonymous_peak_mib": (REAL, ADDED),
    "setup_device_peak_mib": (REAL, NONE),
    "first_step_device_peak_mib": (REAL, NONE),
    "device_peak_mib": (REAL, NONE),
    "device_process_mib": (REAL, NONE),  # at the block's end, what the driver books on the rank
    "device_baseline_mib": (REAL, NONE),  # that no backend of the launch has; already taken off the peaks
    "first_step_torch_peak_allocated_mib": (REAL, NONE),
    "torch_peak_allocated_mib": (REAL, NONE),
    "torch_peak_reserved_mib": (REAL, NONE),
    # before there was a model: interpreter and all libraries; highest rank
    "host_runtime_mib": (REAL, NONE),
    "host_runtime_anonymous_mib": (REAL, ADDED),  # the same without pages of files
    "predicted_weights_bytes": (WHOLE, NONE),  # from here: per rank, from the number of parameters alone
    "predicted_gradients_bytes": (WHOLE, NONE),
    "predicted_optimizer_bytes": (WHOLE, NONE),
    "weights_bytes": (WHOLE, NONE),  # as measured, all copies of the weights; highest rank, as the next
    "optimizer_state_bytes": (WHOLE, NONE),
    "energy_j": (REAL, NONE),  # sum of all devices
    # from here to gpu_throttled_by: of the samples in the block; mean, percent
    "gpu_utilisation": (REAL, NONE),
    "gpu_utilisation_before": (REAL, NONE),  # just before the group started; highest device
    "gpu_clock_mhz": (REAL, NONE),  # mean
    "gpu_temperature_c": (REAL, NONE),  # highest
    "gpu_power_w": (REAL, NONE),  # mean of the samples, sum of the devices
    "gpu_throttled_by": (TEXT, NONE),  # blank: by nothing, or unknown
    "last_loss": (REAL, NONE),  # of the block's last step, mean of all ranks
    "loss_difference": (REAL, NONE),  # from the reference, in the parity check
    "config_hash": (TEXT, FILES_SAID | TRACKED),
    "environment_hash": (TEXT, FILES_SAID | TRACKED),
    "environment": (TEXT, NONE),  # JSON: versions, driver, hardware
}
"""Every column in order, with its type and its rules."""

COLUMNS = tuple(TABLE)
DTYPES = {name: dtype for name, (dtype, _) in TABLE.items()}


def columns_with(rule: Rule) -> tuple[str, ...]:
    """The columns that have this rule, in order; of several rules, all of them."""
    return tuple(name for name, (_, rules) in TABLE.items() if rule in rules)


REMOVED = ("installed_mib", "loaded_mib", "published_layers_flops_share", "layers_flops_share")
"""Columns of earlier files that are no longer read."""

HASHES = dict.fromkeys(("git_commit", "config_hash", "environment_hash"), str)
"""So that they are read as text: of `8e97791590479355`, which it takes for a number, pandas 2.3 dies."""
