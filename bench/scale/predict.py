"""Rows of results/predicted/scaling-*.csv: one model on one topology, 1 to 1,024 ranks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.analysis.scale.estimates import Dice, estimates_of
from bench.analysis.scale.memory import predict_memory
from bench.analysis.scale.network import LinkedNodes
from bench.analysis.scale.sendings import sendings
from bench.analysis.scale.steps import StepSeconds, predict_step
from bench.analysis.scale.tables import COUNTED, STRONG, TEXTBOOK, WEAK
from bench.analysis.scale.topology import Topology
from bench.config.choices import SIXTEEN_BITS
from bench.config.schema import Config
from bench.results.model_facts import ModelFacts
from bench.results.prediction import BYTES_OF_16_BITS, DIVIDED, FP32_BYTES
from bench.scale.assumed import assumed_parts
from bench.statistics.intervals import Floats

WORLD_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

SHARDINGS = ("ddp", "zero1", "zero2", "zero3", "fsdp2")
"""That are predicted; libraries' own."""

DRAWS, SEED = 256, 1
"""From which bands are made; the same call gives the same."""

STRONG_RANKS = 256
"""A strong scaling has the samples that so many ranks have with one micro-batch each: fewer ranks accumulate
gradients, more have smaller micro-batches."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One line of a figure."""

    sharding: str  # of the ranks
    volume: str  # `COUNTED` or `TEXTBOOK`
    scaling: str  # `WEAK` or `STRONG`


CASES = (
    *(Case(sharding=one, volume=COUNTED, scaling=scaling) for scaling in (WEAK, STRONG) for one in SHARDINGS),
    *(Case(sharding=one, volume=TEXTBOOK, scaling=WEAK) for one in ("zero1", "zero2", "zero3")),
)


def scaling_rows(
    config: Config,
    facts: ModelFacts,
    topology: Topology,
    *,
    bandwidth: float = 1.0,
    described: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Any]]:
    """A row for each case and world size.

    Args:
        config: whose precision, micro-batch and length are predicted for.
        facts: of the model with them.
        topology: of the ranks.
        bandwidth: factor on that of all links.
        described: cells of every row, such as the command.

    Raises:
        UserError: its devices do not have that precision.
    """
    for case in CASES:
        ranks = np.array(WORLD_SIZES, dtype=float)
        if case.scaling == STRONG:  # a rank trains at least one sample
            ranks = ranks[ranks <= STRONG_RANKS * config.micro_batch]
        step, share = predict_case(case, config, facts, topology, ranks, bandwidth=bandwidth)
        samples = share * config.micro_batch * ranks  # of a step, all ranks
        for row in _rows(case, config, facts, topology, ranks, step, samples):
            yield {**(described or {}), **row}


def with_bandwidth(
    config: Config, facts: ModelFacts, topology: Topology, factor: float
) -> list[dict[str, Any]]:
    """The rows with so many times the bandwidth of all links."""
    return list(scaling_rows(config, facts, topology, bandwidth=factor))


def predict_case(
    case: Case,
    config: Config,
    facts: ModelFacts,
    topology: Topology,
    ranks: Floats,
    *,
    bandwidth: float = 1.0,
    draws: int = DRAWS,
) -> tuple[StepSeconds, Floats]:
    """The seconds of a step, and how many of the configured micro-batches a rank trains in it.

    Equal draws for all cases: what makes a device faster makes it faster under every sharding.
    """
    dice = Dice(draws, SEED)
    sixteen_bits = config.precision.name in SIXTEEN_BITS
    network = LinkedNodes(topology, dice, bandwidth=bandwidth)
    parts = assumed_parts(facts, topology.device, config.precision.name, dice, grad_accum=1)
    share = np.full_like(ranks, config.grad_accum)
    if case.scaling == STRONG:
        share = STRONG_RANKS / ranks
    sent = sendings(
        case.sharding,
        tensors=facts.tensors,
        ranks=2,
        on_cuda=True,
        sixteen_bits=sixteen_bits,
        layers=max(1, facts.layers),
        layer_parameters=facts.layer_parameters if facts.layers else None,
        textbook=case.volume == TEXTBOOK,
    )
    divides = "optimizer" in DIVIDED[case.sharding]
    step = predict_step(parts, sent, network, ranks, divides_update=divides, micro_batches=share)
    return step, share


def kept_of(facts: ModelFacts, sharding: str, config: Config) -> tuple[int, int]:
    """Bytes of activations on a rank, and those of them in the repeated layers.

    Without checkpointing, autocast keeps a copy of the weights in 16 bits for the backward pass, and that
    counts as an activation. FSDP2 casts by itself and keeps none.
    """
    casts = 0
    if sharding == "fsdp2" and config.precision.name in SIXTEEN_BITS and not config.checkpointing:
        casts = BYTES_OF_16_BITS * facts.layer_parameters
    return facts.activation_bytes - casts, facts.layer_activation_bytes - casts


def _rows(
    case: Case,
    config: Config,
    facts: ModelFacts,
    topology: Topology,
    ranks: Floats,
    step: StepSeconds,
    samples: Floats,
) -> Iterator[dict[str, Any]]:
    rates = samples / step.total
    seconds, per_second = estimates_of(step.total), estimates_of(rates)
    efficiency = estimates_of(rates / ranks / rates[:, :1])
    held = predict_memory(
        sharding=case.sharding,
        optimizer="adamw",
        parameters=facts.parameters,
        trainable=facts.trainable,
        activations=0.0,
        world_sizes=[int(one) for one in ranks],
        device="cuda",
    )
    share = samples / ranks / config.micro_batch
    memory = held.total + kept_of(facts, case.sharding, config)[0] * np.minimum(1.0, share)
    if case.sharding == "fsdp2":  # which adds up whole gradients until the last micro-batch
        memory = memory + np.where(share > 1, FP32_BYTES * facts.trainable, 0)
    basis = (
        f"assumed: {topology.device.reached_share.value:.0%} of {topology.device.name}'s "
        f"{topology.device.peak_flops_per_s[config.precision.name] / 1e12:g} TFLOP/s"
    )
    for place, number in enumerate(ranks):
        yield {
            "model": config.model.name,
            "topology": topology.name,
            "sharding": case.sharding,
            "precision": config.precision.name,
            "volume": case.volume,
            "scaling": case.scaling,
            "basis": basis,
            "ranks": int(number),
            "micro_batch": min(config.micro_batch, samples[place] / number),
            "seq_len": config.seq_len,
            **seconds[place].cells("predicted_step_s"),
            "predicted_computed_s": step.computed[0, place],
            "predicted_exposed_s": step.exposed[0, place],
            **per_second[place].cells("predicted_samples_per_s"),
            **efficiency[place].cells("predicted_efficiency"),
            "predicted_memory_gib": memory[place] / 2**30,
            "memory_gib": topology.device.memory_bytes.value / 2**30,
        }


def faster_at(
    rows: Sequence[Mapping[str, Any]], sharding: str, than: str, *, scaling: str = WEAK
) -> list[int]:
    """The world sizes at which a sharding is predicted to be faster than another."""

    def rates(of: str) -> dict[int, float]:
        return {
            row["ranks"]: row["predicted_samples_per_s"]
            for row in rows
            if (row["sharding"], row["volume"], row["scaling"]) == (of, COUNTED, scaling)
        }

    mine, theirs = rates(sharding), rates(than)
    return [ranks for ranks in sorted(mine) if ranks > 1 and mine[ranks] > theirs[ranks]]
