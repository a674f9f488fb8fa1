"""What is known of each backend before there is a launch: the beginning of all its records."""

from collections.abc import Mapping, Sequence

from bench.config import identity, layers, own, python_docs, sizes
from bench.config.choices import BEST_ATTENTION
from bench.config.data import Data
from bench.config.engine_options import format_engine_options
from bench.config.model import Model
from bench.config.naming import repeat_command
from bench.config.overrides import repeatable
from bench.config.schema import Config
from bench.launch.spec import WorkerSpec
from bench.machine import environment, source_code
from bench.machine.gpus import Gpu, short_name
from bench.measure.plan.plans import ResolvedBackend
from bench.results.records import NOT_TIMED, LaunchStage, Record, Workload
from bench.setup import stacks


def first_records(
    config: Config,
    stem: str,
    overrides: Sequence[str],
    backends: Mapping[str, ResolvedBackend],
    gpus: Sequence[Gpu],
) -> dict[str, Record]:
    """The record of each backend, in the configuration's order, before there is a launch.

    Everything that the backends share is found once, the environment once for each stack.
    """
    measured, config_hash = identity.measured_settings(config), identity.config_hash(config)
    commit = source_code.git_commit()
    environments = {
        stack: identity.collect_environment(config, stack)
        for stack in {backend.stack: None for backend in config.backends.values()}
    }
    records = {}
    for name, backend in config.backends.items():
        spec = backends[name].spec
        collected = environments[backend.stack]
        records[name] = Record(
            study=config.study,
            comparison=stem,
            overrides=tuple(repeatable(overrides)),
            command=repeat_command(overrides, stacks.own()),
            backend=name,
            reference=config.reference,
            engine=spec.engine,
            engine_options=format_engine_options(backend.engine_options),
            optimizer=spec.optimizer,
            sharding=spec.sharding,
            loop=spec.loop,
            slowed_by=spec.slowed_by,
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
            blas=spec.blas,
            seed=spec.seed,
            margin=config.measure.margin,
            until=config.measure.until,
            workload=_workload(config, spec),
            config=measured,
            config_hash=config_hash,
            environment=collected,
            environment_hash=environment.hash_environment(collected),
        )
    return records


def _workload(config: Config, spec: WorkerSpec) -> Workload:
    """What a backend trains, as far as it is known before there is a model."""
    model, data = spec.model, spec.data
    return Workload(
        model=model.name,
        task=model.describe_task(),
        precision=spec.precision.name,
        attention="" if spec.attention == BEST_ATTENTION else spec.attention,
        world_size=config.device.world_size,
        micro_batch=spec.micro_batch,
        grad_accum=spec.grad_accum,
        seq_len=spec.seq_len,
        size=_describe_size(model),
        layers=layers.count(sizes.resize(model.dimensions, model.size)),
        published_layers=layers.count(model.dimensions),
        data=_describe_data(data) if model.module is None else "example_batch",
        lengths=data.lengths if data.name == "synthetic" and model.module is None else "",
        loader=data.loader_on(spec.device),
        checkpointing=spec.checkpointing,
        batch_rule=config.measure.batch,
        memory_limit_gib=config.device.memory_limit_gib,
        nodes=spec.nnodes,
        link_gbit_per_s=config.device.link_gbit_per_s,
    )


def _describe_size(model: Model) -> str:
    """`model.size`; of a checkpoint or a folder with a config.json alone, where its weights come from."""
    if model.pretrained is None or model.size != sizes.PUBLISHED:
        return model.size
    return "random weights" if own.is_random(model.pretrained) else "pretrained"


def _describe_data(data: Data) -> str:
    """Where batches come from, and which data that is where another machine may have others."""
    if data.name == python_docs.NAME:
        return f"{data.name}:{python_docs.digest()}"
    return data.name if data.path is None else f"{data.name}:{data.path}"
