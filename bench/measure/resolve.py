"""From the configuration to the plan of a comparison; nothing else that measures reads the configuration."""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from bench.config import identity, layers, python_docs, sizes
from bench.config.choices import (
    CHECKPOINT,
    COUNT,
    EXPORT,
    IN_16_BITS_ALONE,
    LADDER,
    LOSS_TOLERANCE,
    OTHER_UPDATES,
)
from bench.config.data import Data
from bench.config.engine_options import format_engine_options
from bench.config.naming import repeat_command
from bench.config.overrides import repeatable
from bench.config.schema import Config
from bench.launch.spec import WorkerSpec
from bench.machine import environment, source_code
from bench.machine.gpus import Gpu, short_name
from bench.measure.parity import GRADIENT_TOLERANCE, Tolerances
from bench.measure.plans import (
    BackendPlan,
    BlockPlan,
    CheckpointPlan,
    ComparisonPlan,
    ConvergePlan,
    ExplainPlan,
    ExportPlan,
    LaunchPlan,
    Output,
    ParityPlan,
    PartsPlan,
    Schedule,
    SearchPlan,
)
from bench.results.records import NOT_TIMED, LaunchStage, Record, Workload
from bench.setup import stacks

PROFILED_ROUNDS = 8
"""Of profiled steps: backends take turns, so that a machine that gets slower slows them all."""

EQUAL_WARMUP_BLOCKS = 3
"""Where steps are counted: warm-up until it is settled would give some backends more of them."""

PROFILED_SECONDS = 3.0
"""That a backend's profiled steps should last about."""

MOST_PARTS_LAUNCHES, PARTS_SECONDS = 4, 6.0
"""Fresh processes of each backend in which steps are taken apart, and how long those steps should last
about."""


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
    measure, device, reference = config.measure, config.device, config.reference
    output = _output(config, stem)
    return ComparisonPlan(
        names=sorted(config.backends, key=lambda name: name != reference),
        output=output,
        records=_records(config, stem, overrides, gpus, cores),
        launching=_launching(config, output, gpus, cores),
        parity=ParityPlan(
            reference=reference,
            all_resident=measure.resident == "all",
            steps=measure.parity_steps,
            batches=_parity_batches(config),
            tolerances={name: _tolerances(config, name) for name in config.backends},
            updates={
                name: optimizer if (optimizer := backend.optimizer_on(device.type)) in OTHER_UPDATES else ""
                for name, backend in config.backends.items()
            },
            precisions={name: config.precision_of(name).name for name in config.backends},
            without_fp32=[
                name for name, backend in config.backends.items() if backend.sharding in IN_16_BITS_ALONE
            ],
            parity_only=not measure.launches,
            stacks={name: backend.stack or stacks.own() for name, backend in config.backends.items()},
        ),
        search=None
        if measure.batch != "max"
        else SearchPlan(
            reference=reference,
            start=config.micro_batch,
            most_trials=measure.most_trials,
            steps=measure.rounds,
            launches=measure.launches,
        ),
        schedule=Schedule(
            reference=reference,
            all_resident=measure.resident == "all",
            launches=measure.launches,
            rounds=measure.rounds,
            until=measure.until,
            most_launches=measure.most_launches,
            most_seconds=measure.most_seconds,
            wait_s=measure.wait_s,
        ),
        blocks=BlockPlan(
            warmup_steps=measure.warmup_steps,
            warmup_blocks=None if measure.evaluate_every is None else EQUAL_WARMUP_BLOCKS,
            preheat_s=measure.preheat_s,
            block_seconds=measure.block_seconds,
            repeats=measure.repeats,
            cores_per_rank=len(cores[0]),
            device=device.type,
            world_size=device.world_size,
            optimizers={name: backend.optimizer_on(device.type) for name, backend in config.backends.items()},
            shardings={name: backend.sharding for name, backend in config.backends.items()},
        ),
        after=_after(config),
        explain=ExplainPlan(
            wanted=measure.explain and measure.launches > 0,
            all_resident=measure.resident == "all",
            rounds=PROFILED_ROUNDS,
            seconds=PROFILED_SECONDS,
        ),
        parts=None
        if measure.parts is None
        else PartsPlan(
            launches=1 if measure.parts == COUNT else max(1, min(measure.launches, MOST_PARTS_LAUNCHES)),
            seconds=PARTS_SECONDS,
            timed=measure.parts != COUNT,
            ladder=measure.parts == LADDER,
        ),
        converge=_converge(config, cores),
        resume=config.resume,
    )


def _parity_batches(config: Config) -> int:
    """Distinct micro-batches of a rank in the parity launch: two steps' worth, taken in turn."""
    return 2 * config.grad_accum


def _after(config: Config) -> ExportPlan | CheckpointPlan | None:
    """What follows training in the parity launch."""
    if config.after == EXPORT:
        return ExportPlan(
            reference=config.reference, threads=config.device.ranks_per_node * config.device.threads
        )
    if config.after == CHECKPOINT:
        return CheckpointPlan(steps=config.measure.parity_steps, batches=_parity_batches(config))
    return None


def _converge(config: Config, cores: Sequence[tuple[int, ...]]) -> ConvergePlan | None:
    measure = config.measure
    if measure.evaluate_every is None:
        return None
    assert measure.target_loss is not None, "bench.config.measure sees to it"
    assert measure.margin_loss is not None, "likewise"
    return ConvergePlan(
        steps=measure.evaluate_every,
        rounds=measure.rounds,
        target=measure.target_loss,
        margin=measure.margin_loss,
        seed_step=_seed_step(config),
        cores_per_rank=len(cores[0]),
    )


def _seed_step(config: Config) -> int:
    """Each rank has a seed of its own, the next number, so that launches must be as many apart."""
    return 0 if config.measure.evaluate_every is None else config.device.world_size


def _tolerances(config: Config, name: str) -> Tolerances:
    """The comparison's, or wider ones if the backend or the reference computes in fewer bits than it."""
    precisions = config.precision_of(name).name, config.precision_of(config.reference).name
    own = [LOSS_TOLERANCE[precision] for precision in precisions if precision != config.precision.name]
    return Tolerances(
        loss=max(config.measure.parity_tolerance, *own, 0.0),
        gradient_norm=max(GRADIENT_TOLERANCE[precision] for precision in precisions),
    )


def _output(config: Config, stem: str) -> Output:
    started = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")
    results = Path(config.results_dir)
    return Output(stem=stem, csv=results / f"{stem}.csv", folder=results.resolve() / "runs" / stem / started)


def _launching(
    config: Config, output: Output, gpus: Sequence[Gpu], cores: Sequence[tuple[int, ...]]
) -> LaunchPlan:
    device = config.device
    backends = {}
    for name, backend in config.backends.items():
        stack = stacks.installed(backend.stack)
        assert stack is not None, "bench.measure.preflight.check_packages refuses a stack that is not there"
        backends[name] = BackendPlan(
            spec=_spec(config, name, output, gpus, cores),
            stack=backend.stack or stacks.own(),
            interpreter=stack.interpreter,
            prefix=stack.prefix,
            settings=identity.backend_settings(config, name),
        )
    return LaunchPlan(
        backends=backends,
        world_size=device.world_size,
        ranks_per_node=device.ranks_per_node,
        threads=device.threads,
        holds_threads=device.hold_threads,
        timeout_s=config.measure.timeout_s,
        seed_step=_seed_step(config),
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
        micro_batch=config.micro_batch_of(name),
        grad_accum=config.grad_accum_of(name),
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


def _records(
    config: Config, stem: str, overrides: Sequence[str], gpus: Sequence[Gpu], cores: Sequence[tuple[int, ...]]
) -> dict[str, Record]:
    """The record of each backend, before there is a launch.

    Everything that the backends share is found once, the environment once for each stack.
    """
    measured, config_hash, commit = (
        identity.measured_settings(config),
        identity.config_hash(config),
        source_code.git_commit(),
    )
    environments = {
        stack: identity.collect_environment(config, stack)
        for stack in {backend.stack: None for backend in config.backends.values()}
    }
    environment_hashes = {
        stack: environment.hash_environment(collected) for stack, collected in environments.items()
    }
    return {
        name: Record(
            study=config.study,
            comparison=stem,
            overrides=tuple(repeatable(overrides)),
            command=repeat_command(overrides, stacks.own()),
            backend=name,
            reference=config.reference,
            engine=backend.engine,
            engine_options=format_engine_options(backend.engine_options),
            optimizer=backend.optimizer_on(config.device.type),
            sharding=backend.sharding,
            loop=backend.loop,
            slowed_by=backend.slowed_by,
            stage=LaunchStage.PARITY,
            launch=NOT_TIMED,
            status="ok",
            started_at="",
            git_commit=commit,
            stack=environments[backend.stack]["stack"],
            device=short_name(gpus[0].name) if gpus else "cpu",
            threads_per_rank=config.device.threads,
            cores_per_rank=len(cores[0]),
            rank_cores=tuple(cores),
            allocator=config.device.allocator,
            blas=config.device.blas,
            seed=config.seed,
            margin=config.measure.margin,
            until=config.measure.until,
            workload=_workload(config, name),
            config=measured,
            config_hash=config_hash,
            environment=environments[backend.stack],
            environment_hash=environment_hashes[backend.stack],
        )
        for name, backend in config.backends.items()
    }


def _workload(config: Config, name: str) -> Workload:
    """What a backend trains, as far as it is known before there is a model."""
    data = config.data_of(name)
    return Workload(
        model=config.model.name,
        task=config.model.task,
        precision=config.precision_of(name).name,
        attention=config.attention_of(name),
        world_size=config.device.world_size,
        micro_batch=config.micro_batch_of(name),
        grad_accum=config.grad_accum_of(name),
        seq_len=config.seq_len,
        size=config.model.size,
        layers=layers.count(sizes.resize(config.model.config, config.model.size)),
        published_layers=layers.count(config.model.config),
        data=_describe_data(data),
        lengths=data.lengths if data.name == "synthetic" else "",
        loader=data.loader_on(config.device.type),
        checkpointing=config.checkpointing_of(name),
        batch_rule=config.measure.batch,
        memory_limit_gib=config.device.memory_limit_gib,
        nodes=config.device.nnodes,
        link_gbit_per_s=config.device.link_gbit_per_s,
    )


def _describe_data(data: Data) -> str:
    """Where batches come from, and which data that is where another machine may have others."""
    if data.name == python_docs.NAME:
        return f"{data.name}:{python_docs.digest()}"
    return data.name if data.path is None else f"{data.name}:{data.path}"
