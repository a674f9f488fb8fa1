"""The columns of the results CSV, in order, with the type of each in pandas."""

TEXT, WHOLE, REAL = "object", "Int64", "float64"

DTYPES = {
    "schema_version": WHOLE,
    "study": TEXT,  # why the comparison was made: bench, reproduce, methods …
    "comparison": TEXT,
    "overrides": TEXT,  # JSON: those of Hydra that make it again, in order
    "command": TEXT,  # the same as a line to type
    "status": TEXT,
    "message": TEXT,
    "invalid_because": TEXT,  # the cause, one of bench.results.validity.REMEDIES; blank: the block is valid
    "started_at": TEXT,  # of the launch; ISO 8601, UTC
    "git_commit": TEXT,
    "stack": TEXT,
    "device": TEXT,
    "model": TEXT,
    "size": TEXT,  # published, changed, mini, layers:N, pretrained, or random weights of a config.json
    "layers": WHOLE,  # of the deepest stack; blank where the configuration does not say
    "published_layers": WHOLE,  # of the same stack in the model as published
    "parameters": WHOLE,
    "trainable_parameters": WHOLE,  # fewer with LoRA
    "task": TEXT,
    "data": TEXT,  # synthetic, hf:<path>, or python_docs:<digest of the text>
    "lengths": TEXT,  # the distribution of synthetic samples' lengths; blank otherwise
    "backend": TEXT,
    "reference": TEXT,  # the backend that speed-ups are measured against
    "engine": TEXT,
    "engine_options": TEXT,  # such as compute_optimizer=false; blank: as the engine comes
    "optimizer": TEXT,
    "optimizer_implementation": TEXT,  # of torch's AdamW: for-loop, foreach or fused; else blank
    "sharding": TEXT,
    "loop": TEXT,  # what made the steps: bare, or a loop that users have
    "loader": TEXT,  # how batches are prepared, such as workers=2; blank: they lie ready
    "slowed_by": REAL,  # share of its time that every step waits on purpose: make selftest
    "precision": TEXT,
    "attention": TEXT,
    "checkpointing": WHOLE,  # 1 or 0: activations are recomputed in the backward pass
    "batch_rule": TEXT,  # equal; max: each backend at its own largest micro-batch
    "memory_limit_gib": REAL,  # of each backend's private memory on the host; blank: what was left
    "nodes": WHOLE,  # machines that the ranks are spread over
    "link_gbit_per_s": REAL,  # that the link between them was held to; blank: nothing holds it
    "world_size": WHOLE,
    "micro_batch": WHOLE,
    "saturating_micro_batch": WHOLE,  # that fills the GPU, for all backends; blank: not looked for
    "grad_accum": WHOLE,
    "global_batch": WHOLE,
    "seq_len": WHOLE,
    "padding_share": REAL,
    "threads_per_rank": WHOLE,
    "cores_per_rank": WHOLE,  # more than threads_per_rank: the threads were not held
    "allocator": TEXT,
    "blas": TEXT,  # stock; full: MKL takes its full path on CPUs of every maker
    "seed": WHOLE,
    "margin": REAL,  # a ratio within 1 ± margin is `same`
    "until": REAL,  # half-width at which launches ended; blank: their number was fixed
    "launch": WHOLE,  # from 1; 0 is what comes before: parity, and the search for the largest batch
    "round": WHOLE,  # from 1; blank: the launch failed
    "position": WHOLE,  # the backend's place in the round, from 1
    "attempt": WHOLE,  # from 1; above it, the one before was contaminated
    "steps": WHOLE,
    "seconds": REAL,  # of the slowest rank
    "samples_per_s": REAL,  # steps * global_batch / seconds
    "model_flops_per_step": WHOLE,  # forward and backward, all ranks; without recomputation and optimizer
    "model_flops_per_s": REAL,  # model_flops_per_step * steps / seconds
    "torch_matmul_flops_per_s": REAL,  # of matrix products at the workload's own shapes; sum of all ranks
    "ort_matmul_flops_per_s": REAL,  # the same by ONNX Runtime; blank where it does not run
    "limit_flops_per_s": REAL,  # the highest rate of any engine's products at this precision, all ranks
    "roofline_share": REAL,  # model_flops_per_s / limit_flops_per_s
    "cpu_seconds": REAL,  # user + system, sum of all ranks
    "other_cpu_seconds": REAL,  # that other processes had of the ranks' cores
    "stolen_seconds": REAL,  # that the hypervisor took of them
    "cpu_clock_mhz": REAL,  # at the block's end, of a rank's fastest core; slowest rank
    "cpu_throttles": WHOLE,  # times that a core slowed down for heat, sum of all ranks
    "page_faults": WHOLE,  # without disk, sum of all ranks: memory touched for the first time
    "loader_s": REAL,  # of the block, that the ranks waited for batches; slowest rank; blank: they were there
    "loss_scale": REAL,  # at the block's end; blank: the loss is not scaled
    "skipped_steps": WHOLE,  # of the block, since gradients overflowed; blank: the loss is not scaled
    "setup_s": REAL,  # from here to warm_up_settled: of the launch; slowest rank
    "import_s": REAL,  # of setup_s, until all libraries were imported; what was before the fork included
    "first_step_s": REAL,
    "warm_up_s": REAL,
    "warm_up_steps": WHOLE,
    "warm_up_settled": WHOLE,  # 1 or 0
    "setup_cpu_seconds": REAL,  # sum of all ranks, without what was imported before they were forked
    "first_step_cpu_seconds": REAL,
    "setup_host_peak_mib": REAL,  # highest rank or device, like all peaks
    "first_step_host_peak_mib": REAL,
    "host_peak_mib": REAL,  # of the block, like all peaks without another phase in their name
    "setup_host_anonymous_peak_mib": REAL,  # of a rank's memory without pages of files: what training holds
    "first_step_host_anonymous_peak_mib": REAL,
    "host_anonymous_peak_mib": REAL,
    "setup_device_peak_mib": REAL,
    "first_step_device_peak_mib": REAL,
    "device_peak_mib": REAL,
    "device_process_mib": REAL,  # at the block's end, what the driver books on the rank
    "device_baseline_mib": REAL,  # that no backend of the launch has; already taken off the peaks
    "first_step_torch_peak_allocated_mib": REAL,
    "torch_peak_allocated_mib": REAL,
    "torch_peak_reserved_mib": REAL,
    "host_runtime_mib": REAL,  # before there was a model: interpreter and all libraries; highest rank
    "host_runtime_anonymous_mib": REAL,  # the same without pages of files
    "predicted_weights_bytes": WHOLE,  # from here: per rank, from the number of parameters alone
    "predicted_gradients_bytes": WHOLE,
    "predicted_optimizer_bytes": WHOLE,
    "weights_bytes": WHOLE,  # as measured, all copies of the weights; highest rank, as the next
    "optimizer_state_bytes": WHOLE,
    "energy_j": REAL,  # sum of all devices
    "gpu_utilisation": REAL,  # from here to gpu_throttled_by: of the samples in the block; mean, percent
    "gpu_utilisation_before": REAL,  # just before the group started; highest device
    "gpu_clock_mhz": REAL,  # mean
    "gpu_temperature_c": REAL,  # highest
    "gpu_power_w": REAL,  # mean of the samples, sum of the devices
    "gpu_throttled_by": TEXT,  # blank: by nothing, or unknown
    "last_loss": REAL,  # of the block's last step, mean of all ranks
    "loss_difference": REAL,  # from the reference, in the parity check
    "config_hash": TEXT,
    "environment_hash": TEXT,
    "environment": TEXT,  # JSON: versions, driver, hardware
}
"""Every column in order, with its type in pandas: what is blank is NaN in REAL and NA in WHOLE."""

COLUMNS = tuple(DTYPES)

ADDED = (
    *("setup_host_anonymous_peak_mib", "first_step_host_anonymous_peak_mib", "host_anonymous_peak_mib"),
    *("host_runtime_anonymous_mib", "saturating_micro_batch"),
)
"""Columns that files of before they were recorded lack; they are blank there."""

REMOVED = ("installed_mib", "loaded_mib", "layers_flops_share", "published_layers_flops_share")
"""Columns of earlier files that nobody reads any more."""
