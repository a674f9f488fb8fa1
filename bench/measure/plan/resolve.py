"""From the configuration to the plan of a comparison; nothing else that measures reads the configuration."""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from bench.config.choices import CHECKPOINT, COUNT, EXPORT, LADDER
from bench.config.measure import Measure
from bench.config.schema import Config
from bench.machine.gpus import Gpu
from bench.measure.plan.backends import resolve_backends
from bench.measure.plan.plans import (
    BlockPlan,
    ComparisonPlan,
    ConvergePlan,
    ExportPlan,
    LaunchPlan,
    Output,
    ParityPlan,
    PartsPlan,
    ProfilePlan,
    SearchPlan,
    TimedPlan,
)
from bench.measure.plan.records import first_records

PROFILED_ROUNDS = 8
"""In how many rounds steps are profiled: backends take turns, so that a slower machine slows them all."""

EQUAL_WARMUP_BLOCKS = 3
"""Where steps are counted: warm-up until it is settled would give some backends more of them."""

PROFILED_SECONDS = 3.0
"""How long a backend's profiled steps should last about."""

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
    measure, device = config.measure, config.device
    output = make_output(config, stem)
    backends = resolve_backends(config, output, gpus, cores)
    follows_training = measure.evaluate_every is not None
    # two steps' worth of micro-batches, taken in turn
    parity = ParityPlan(steps=measure.parity_steps, batches=2 * config.grad_accum)
    export = ExportPlan(threads=device.ranks_per_node * device.threads)
    search = SearchPlan(start=config.micro_batch, most_trials=measure.most_trials, steps=measure.rounds)
    profiles = ProfilePlan(rounds=PROFILED_ROUNDS, seconds=PROFILED_SECONDS)
    return ComparisonPlan(
        reference=config.reference,
        backends=backends,
        cores=cores,
        all_resident=measure.resident == "all",
        launches=measure.launches,
        resume=config.resume,
        output=output,
        records=first_records(config, stem, overrides, backends, gpus),
        launching=LaunchPlan(
            world_size=device.world_size,
            timeout_s=measure.timeout_s,
            # Each rank has a seed of its own, the next number, so that launches must be as many apart.
            seed_step=device.world_size if follows_training else 0,
            wait_s=measure.wait_s,
        ),
        blocks=BlockPlan(
            warmup_steps=measure.warmup_steps,
            warmup_blocks=EQUAL_WARMUP_BLOCKS if follows_training else None,
            preheat_s=measure.preheat_s,
            block_seconds=measure.block_seconds,
            repeats=measure.repeats,
        ),
        parity=parity,
        export=export if config.after == EXPORT else None,
        checkpoint=parity if config.after == CHECKPOINT else None,
        search=search if measure.batch == "max" else None,
        timed=_timed(measure) if measure.launches else None,
        profiles=profiles if measure.explain and measure.launches else None,
        parts=_parts(measure),
    )


def make_output(config: Config, stem: str) -> Output:
    """Where a comparison that starts now writes."""
    started = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")
    results = Path(config.results_dir)
    return Output(stem=stem, csv=results / f"{stem}.csv", folder=results.resolve() / "runs" / stem / started)


def _timed(measure: Measure) -> TimedPlan:
    converge = None
    if measure.evaluate_every is not None:
        assert measure.target_loss is not None, "bench.config.measure sees to it"
        assert measure.margin_loss is not None, "bench.config.measure sees to it"
        converge = ConvergePlan(
            steps=measure.evaluate_every, target=measure.target_loss, margin=measure.margin_loss
        )
    return TimedPlan(
        rounds=measure.rounds,
        until=measure.until,
        most_launches=measure.most_launches,
        most_seconds=measure.most_seconds,
        converge=converge,
    )


def _parts(measure: Measure) -> PartsPlan | None:
    if measure.parts is None:
        return None
    return PartsPlan(
        launches=1 if measure.parts == COUNT else max(1, min(measure.launches, MOST_PARTS_LAUNCHES)),
        seconds=PARTS_SECONDS,
        timed=measure.parts != COUNT,
        ladder=measure.parts == LADDER,
    )
