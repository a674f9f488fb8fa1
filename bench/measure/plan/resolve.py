"""Makes the plan of a comparison from its configuration."""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from bench.config import identity
from bench.config.choices import IN_16_BITS_ALONE, LOSS_TOLERANCE, OTHER_UPDATES
from bench.config.schema import Config
from bench.launch.spec import WorkerSpec
from bench.machine.gpus import Gpu
from bench.measure.plan.plans import ComparisonPlan, Output, ResolvedBackend, Tolerances
from bench.measure.plan.records import first_records
from bench.setup import stacks

GRADIENT_TOLERANCE = {"fp32": 0.01, "tf32": 0.02, "fp16": 0.03, "bf16": 0.1}
"""By precision: how far the norm of a step's gradient may differ from the reference's, relative to it.

Adam's update stays the same when all gradients are scaled, so that losses alone would not show gradients that
were summed where they should have been averaged, which is at least a factor of 2."""


def resolve(
    config: Config,
    stem: str,
    overrides: Sequence[str],
    *,
    gpus: Sequence[Gpu],
    cores: Sequence[tuple[int, ...]],
) -> ComparisonPlan:
    """The plan of a comparison.

    Args:
        config: checked against this machine.
        stem: the results file's name without its ending.
        overrides: of Hydra, that make this comparison again, for the record.
        gpus: the visible ones; none on a CPU.
        cores: of each rank on this node.
    """
    output = make_output(config, stem)
    backends = _resolve_backends(config, output, gpus, cores)
    return ComparisonPlan(
        config=config,
        output=output,
        backends=backends,
        cores=cores,
        records=first_records(config, stem, overrides, backends, gpus),
    )


def make_output(config: Config, stem: str) -> Output:
    """Where a comparison that starts now writes."""
    started = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")
    results = Path(config.results_dir)
    return Output(stem=stem, csv=results / f"{stem}.csv", folder=results.resolve() / "runs" / stem / started)


def _resolve_backends(
    config: Config, output: Output, gpus: Sequence[Gpu], cores: Sequence[tuple[int, ...]]
) -> dict[str, ResolvedBackend]:
    """Every backend by name, the reference first."""
    specs = {name: _spec(config, name, output, gpus, cores) for name in config.backends}
    reference = specs[config.reference]
    return {
        name: _resolve_backend(config, specs[name], reference)
        for name in sorted(specs, key=lambda name: name != config.reference)
    }


def _resolve_backend(config: Config, spec: WorkerSpec, reference: WorkerSpec) -> ResolvedBackend:
    stack = config.backends[spec.backend].stack
    installed = stacks.installed(stack)
    assert installed is not None, "the preflight's check_packages refuses a stack that is not there"
    return ResolvedBackend(
        spec=spec,
        stack=stack or stacks.own(),
        interpreter=installed.interpreter,
        prefix=installed.prefix,
        settings=identity.environment_settings(config, spec.backend),
        tolerances=_tolerances(config, spec.precision.name, reference.precision.name),
        update=spec.optimizer if spec.optimizer in OTHER_UPDATES else "",
        has_fp32=spec.sharding not in IN_16_BITS_ALONE,
    )


def _tolerances(config: Config, *precisions: str) -> Tolerances:
    """The comparison's, or wider ones if the backend or the reference computes in fewer bits than it."""
    own = [LOSS_TOLERANCE[precision] for precision in precisions if precision != config.precision.name]
    return Tolerances(
        loss=max(config.measure.parity_tolerance, *own, 0.0),
        gradient_norm=max(GRADIENT_TOLERANCE[precision] for precision in precisions),
    )


def _spec(
    config: Config, name: str, output: Output, gpus: Sequence[Gpu], cores: Sequence[tuple[int, ...]]
) -> WorkerSpec:
    backend, device = config.backends[name], config.device
    limit = device.memory_limit_gib
    return WorkerSpec(
        backend=name,
        engine=backend.engine,
        engine_options=dict(backend.engine_options),
        optimizer=backend.optimizer_on(device.type),
        sharding=backend.sharding,
        loop=backend.loop,
        slowed_by=backend.slowed_by,
        model=config.model,
        data=config.data_of(name),
        adam=config.adam,
        precision=config.precision_of(name),
        attention=config.attention_of(name),
        checkpointing=config.checkpointing_of(name),
        micro_batch=config.micro_batch // backend.accumulate,
        grad_accum=config.grad_accum * backend.accumulate,
        accumulate=backend.accumulate,
        seq_len=config.seq_len,
        seed=config.seed,
        dropout=True,
        device=device.type,
        device_uuids=tuple(gpu.uuid for gpu in gpus),
        threads=device.threads,
        holds_threads=device.hold_threads,
        blas=device.blas,
        cores=tuple(cores),
        memory_limit_bytes=None if limit is None else int(limit * 2**30 / device.world_size),
        initial_state=str(output.initial_state),
        saves_initial_state=False,
        expected_tensors=str(output.expected_tensors),
        nnodes=device.nnodes,
    )
