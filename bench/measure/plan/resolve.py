"""Makes the plan of a comparison from its configuration, and the beginning of all its records."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bench.config import identity, layers, sizes, user_model
from bench.config.choices import BEST_ATTENTION, IN_16_BITS_ALONE, LOSS_TOLERANCE, OTHER_UPDATES
from bench.config.data import SYNTHETIC
from bench.config.differences import overrides_of
from bench.config.engine_options import format_engine_options
from bench.config.model import Model
from bench.config.naming import command_with
from bench.config.schema import Config
from bench.launch.spec import WorkerSpec
from bench.machine import environment, source_code
from bench.machine.gpus import Gpu, short_name
from bench.measure.plan.plans import ComparisonPlan, Output, ResolvedBackend, Tolerances
from bench.results.records import NOT_TIMED, LaunchStage, Record, Workload
from bench.setup import stacks
from bench.study import load_plugin

GRADIENT_TOLERANCE = {"fp32": 0.01, "tf32": 0.02, "fp16": 0.03, "bf16": 0.1}
"""By precision: how far the norm of a step's gradient may differ from the reference's, relative to it.

Adam's update stays the same when all gradients are scaled, so that losses alone would not show gradients that
were summed where they should have been averaged, which is at least a factor of 2."""


ALIKE = ("engine", "optimizer", "sharding", "loop", "slowed_by", "seed", "blas")  # in specs and records


def resolve(
    config: Config, stem: str, *, gpus: Sequence[Gpu], cores: Sequence[tuple[int, ...]]
) -> ComparisonPlan:
    """The plan of a comparison that was checked, each backend with everything that is left open to it.

    `gpus` are the visible ones, none on a CPU, and `cores` those of each rank on this node; the other
    arguments are as in `measure_comparison`.
    """
    started = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")
    results = Path(config.results_dir)
    folder = results.resolve() / "runs" / stem / started
    output = Output(stem=stem, csv=results / f"{stem}.csv", folder=folder)
    specs = {name: _spec(config, name, output, gpus, cores) for name in config.backends}
    reference_first = sorted(specs, key=lambda name: name != config.reference)
    return ComparisonPlan(
        config=config,
        output=output,
        backends={
            name: _resolve_backend(config, specs[name], specs[config.reference]) for name in reference_first
        },
        cores=cores,
        records=_first_records(config, stem, specs, gpus),
    )


def _resolve_backend(config: Config, spec: WorkerSpec, reference: WorkerSpec) -> ResolvedBackend:
    stack = config.backends[spec.backend].stack
    installed = stacks.installed(stack)
    assert installed is not None, "the preflight's check_packages refuses a stack that is not there"
    precisions = (spec.precision.name, reference.precision.name)
    # Wider than the comparison's if the backend or the reference computes in fewer bits.
    own_loss = [LOSS_TOLERANCE[precision] for precision in precisions if precision != config.precision.name]
    return ResolvedBackend(
        spec=spec,
        stack=stack or stacks.own(),
        installed=installed,
        settings=environment_settings(config, spec.backend),
        tolerances=Tolerances(
            loss=max(config.measure.parity_tolerance, *own_loss, 0.0),
            gradient_norm=max(GRADIENT_TOLERANCE[precision] for precision in precisions),
        ),
        update=spec.optimizer if spec.optimizer in OTHER_UPDATES else "",
        has_fp32=spec.sharding not in IN_16_BITS_ALONE,
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
        micro_batch=config.micro_batch,
        grad_accum=config.grad_accum,
        accumulate=backend.accumulate,
        seq_len=config.seq_len,
        seed=config.seed,
        dropout=True,
        device=device.type,
        device_uuids=tuple(gpu.uuid for gpu in gpus),
        threads=device.threads,
        pins_cores=device.pin_cores,
        blas=device.blas,
        cores=tuple(cores),
        memory_limit_bytes=None if limit is None else int(limit * 2**30 / device.world_size),
        initial_state=str(output.initial_state),
        saves_initial_state=False,
        groups=len(config.backends) if config.measure.schedule == "interleaved" else 1,
        without_gradient=tuple(config.without_gradient),
        expected_tensors=str(output.expected_tensors),
        nnodes=device.nnodes,
    )


def _first_records(
    config: Config, stem: str, specs: Mapping[str, WorkerSpec], gpus: Sequence[Gpu]
) -> dict[str, Record]:
    """The record of each backend, in the configuration's order, before there is a launch.

    Everything that the backends share is found once, the environment once for each stack.
    """
    measured, config_hash = identity.measured_settings(config), identity.config_hash(config)
    commit, overrides = source_code.git_commit(), overrides_of(config)
    environments = {
        stack: collect_environment(config, stack)
        for stack in {backend.stack: None for backend in config.backends.values()}
    }
    records = {}
    for name, backend in config.backends.items():
        spec = specs[name]
        collected = environments[backend.stack]
        records[name] = Record(
            study=config.study,
            comparison=stem,
            overrides=tuple(overrides),
            command=command_with(overrides, stacks.own()),
            backend=name,
            reference=config.reference,
            **{name: getattr(spec, name) for name in ALIKE},
            engine_options=format_engine_options(backend.engine_options),
            stage=LaunchStage.PARITY,
            launch=NOT_TIMED,
            status="ok",
            started_at="",
            git_commit=commit,
            stack=collected["stack"],
            device=short_name(gpus[0].name) if gpus else "cpu",
            threads_per_rank=spec.threads,
            cores_per_rank=len(spec.cores[0]),
            rank_cores=spec.cores,
            allocator=config.device.allocator,
            margin=config.measure.margin,
            target_half_width=config.measure.target_half_width,
            workload=_workload(config, spec),
            config=measured,
            config_hash=config_hash,
            environment=collected,
            environment_hash=environment.hash_environment(collected),
        )
    return records


def environment_settings(config: Config, backend: str | None = None) -> dict[str, Any]:
    """What `worker_variables` needs to know of a backend, or of a comparison, as plain JSON."""
    device = config.device
    return {
        "device": device.type,
        "threads": device.threads,
        "allocator": device.allocator,
        "blas": device.blas,
        "precision": (config.precision_of(backend) if backend else config.precision).name,
        "checkpointing": config.checkpointing_of(backend) if backend else config.checkpointing,
    }


def collect_environment(config: Config, stack: str | None = None) -> dict[str, Any]:
    """The environment of a stack, or of this process, as plain JSON, and the name of the host."""
    return environment.take(environment_settings(config), stack) | {"host": config.machine}


def _workload(config: Config, spec: WorkerSpec) -> Workload:
    """What a backend trains, as far as it is known before there is a model."""
    model, data = spec.model, spec.data
    shipped = sizes.read_shipped(model.name) if model.pretrained is None else None
    made = data.name == SYNTHETIC
    described = data.name if made else load_plugin(f"{data.name}.check").describe(data)
    return Workload(
        model=model.name,
        task=model.task,
        precision=spec.precision.name,
        attention="" if spec.attention == BEST_ATTENTION else spec.attention,
        world_size=config.device.world_size,
        micro_batch=spec.samples_per_pass,
        grad_accum=spec.passes,
        seq_len=spec.seq_len,
        size=_describe_size(model, shipped),
        layers=layers.count(sizes.resize(model.dimensions, model.size)),
        published_layers=layers.count(shipped["config"] if shipped else model.dimensions),
        data=described if model.module is None else "example_batch",
        lengths=data.lengths if made and model.module is None else "",
        loader=data.loader_on(spec.device),
        checkpointing=spec.checkpointing,
        batch_rule=config.measure.batch,
        memory_limit_gib=config.device.memory_limit_gib,
        nodes=spec.nnodes,
        link_gbit_per_s=config.device.link_gbit_per_s,
    )


def _describe_size(model: Model, shipped: Mapping[str, Any] | None) -> str:
    """`model.size`, or that a shipped model was changed.

    Of a checkpoint or a folder with a config.json alone, where its weights come from.
    """
    if shipped and model.size != sizes.MINI and sizes.is_changed(shipped, model.architecture, model.config):
        return sizes.CHANGED
    if model.pretrained is None or model.size != sizes.PUBLISHED:
        return model.size
    return "random weights" if user_model.is_random(model.pretrained) else "pretrained"
