"""Rows of results/predicted/scaling-*.csv: one model on one topology, 1 to 1,024 ranks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.analysis.scale.estimates import Dice, estimates_of
from bench.analysis.scale.memory import predict_memory
from bench.analysis.scale.network import LinkedNodes
from bench.analysis.scale.sendings import sendings
from bench.analysis.scale.steps import StepSeconds, predict_step
from bench.analysis.scale.tables import COUNTED, STRONG, TEXTBOOK, WEAK, faster_world_sizes
from bench.analysis.scale.topology import Topology
from bench.config.choices import DIVIDED, SIXTEEN_BITS
from bench.config.schema import Config
from bench.results.prediction import BYTES_OF_16_BITS, FP32_BYTES
from bench.results.step_parts import ModelFacts
from bench.scale.assumed import assumed_parts
from bench.statistics.intervals import Floats

WORLD_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

SHARDINGS = ("ddp", "zero1", "zero2", "zero3", "fsdp2")
"""What is predicted: libraries' own shardings."""

DRAWS, SEED = 256, 1
"""The draws that bands are made from; the same call gives the same."""

STRONG_RANKS = 256
"""A strong scaling has the samples that so many ranks have with one micro-batch each: fewer ranks accumulate
gradients, more have smaller micro-batches."""


class ScalingCase(NamedTuple):
    """One line of a chart."""

    sharding: str  # of the ranks
    volume: str  # `COUNTED` or `TEXTBOOK`
    scaling: str  # `WEAK` or `STRONG`


CASES = (
    *(ScalingCase(sharding, COUNTED, scaling) for scaling in (WEAK, STRONG) for sharding in SHARDINGS),
    *(ScalingCase(sharding, TEXTBOOK, WEAK) for sharding in ("zero1", "zero2", "zero3")),
)


def scaling_rows(
    config: Config, facts: ModelFacts, topology: Topology, *, bandwidth: float = 1.0
) -> Iterator[dict[str, Any]]:
    """A row for each case and world size; `bandwidth` is a factor on that of all links.

    Raises:
        UserError: its devices do not have that precision.
    """
    device, precision = topology.device, config.precision.name
    for case in CASES:
        ranks = np.array(WORLD_SIZES, dtype=float)
        if case.scaling == STRONG:  # a rank trains at least one sample
            ranks = ranks[ranks <= STRONG_RANKS * config.micro_batch]
        share = STRONG_RANKS / ranks if case.scaling == STRONG else np.full_like(ranks, config.grad_accum)
        step = _predict_case(case, config, facts, topology, ranks, share, bandwidth)
        rates = share * config.micro_batch * ranks / step.total  # samples/s of all ranks
        seconds, per_second = estimates_of(step.total), estimates_of(rates)
        efficiency = estimates_of(rates / ranks / rates[:, :1])
        memory = _memory_bytes(case, config, facts, ranks, share)
        basis = (
            f"assumed: {device.reached_share.value:.0%} of {device.name}'s "
            f"{device.peak_flops_per_s[precision] / 1e12:g} TFLOP/s"
        )
        for place, number in enumerate(ranks):
            yield {
                "model": config.model.name,
                "topology": topology.name,
                **case._asdict(),
                "precision": precision,
                "basis": basis,
                "ranks": int(number),
                "micro_batch": min(config.micro_batch, share[place] * config.micro_batch),
                "seq_len": config.seq_len,
                **seconds[place].cells("predicted_step_s"),
                "predicted_computed_s": step.computed[0, place],
                "predicted_exposed_s": step.exposed[0, place],
                **per_second[place].cells("predicted_samples_per_s"),
                **efficiency[place].cells("predicted_efficiency"),
                "predicted_memory_gib": memory[place] / 2**30,
                "memory_gib": device.memory_bytes.value / 2**30,
            }


def _predict_case(
    case: ScalingCase,
    config: Config,
    facts: ModelFacts,
    topology: Topology,
    ranks: Floats,
    share: Floats,
    bandwidth: float,
) -> StepSeconds:
    """The seconds of a step in which a rank trains this share of the configured micro-batch.

    Equal draws for all cases: what makes a device faster makes it faster under every sharding.
    """
    dice = Dice(DRAWS, SEED)
    network = LinkedNodes(topology, dice, bandwidth=bandwidth)
    parts = assumed_parts(facts, topology.device, config.precision.name, dice, grad_accum=1)
    sent = sendings(
        case.sharding,
        tensors=facts.tensors,
        ranks=2,
        on_cuda=True,
        sixteen_bits=config.precision.name in SIXTEEN_BITS,
        layers=max(1, facts.layers),
        layer_parameters=facts.layer_parameters if facts.layers else None,
        textbook=case.volume == TEXTBOOK,
    )
    divides = "optimizer" in DIVIDED[case.sharding]
    return predict_step(parts, sent, network, ranks, divides_update=divides, micro_batches=share)


def _memory_bytes(
    case: ScalingCase, config: Config, facts: ModelFacts, ranks: Floats, share: Floats
) -> Floats:
    held = predict_memory(
        sharding=case.sharding,
        optimizer="adamw",
        parameters=facts.parameters,
        trainable=facts.trainable,
        activations=0.0,
        world_sizes=[int(number) for number in ranks],
        device="cuda",
    )
    memory = held.total + kept_of(facts, case.sharding, config)[0] * np.minimum(1.0, share)
    if case.sharding == "fsdp2":  # which adds up whole gradients until the last micro-batch
        memory = memory + np.where(share > 1, FP32_BYTES * facts.trainable, 0)
    return memory


def kept_of(facts: ModelFacts, sharding: str, config: Config) -> tuple[int, int]:
    """Bytes of activations on a rank, and those of them in the repeated layers.

    Without checkpointing, autocast keeps a copy of the weights in 16 bits for the backward pass, and that
    counts as an activation. FSDP2 casts by itself and keeps none.
    """
    casts = 0
    if sharding == "fsdp2" and config.precision.name in SIXTEEN_BITS and not config.checkpointing:
        casts = BYTES_OF_16_BITS * facts.layer_parameters
    return facts.activation_bytes - casts, facts.layer_activation_bytes - casts


def faster_at(
    rows: Sequence[Mapping[str, Any]], sharding: str, than: str, *, scaling: str = WEAK
) -> list[int]:
    """The world sizes at which a sharding is predicted to be faster than another."""
    rates: dict[tuple[str, int], float] = {
        (row["sharding"], row["ranks"]): row["predicted_samples_per_s"]
        for row in rows
        if (row["volume"], row["scaling"]) == (COUNTED, scaling)
    }
    sizes = sorted(ranks for name, ranks in rates if name == sharding and ranks > 1)
    return faster_world_sizes({ranks: rates[sharding, ranks] / rates[than, ranks] for ranks in sizes})
