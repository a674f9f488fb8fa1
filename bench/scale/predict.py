"""Rows of results/predicted/scaling-*.csv: one model on one topology, 1 to 1,024 ranks."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.analysis.scale.estimates import Dice, Draws, Estimate, estimates_of
from bench.analysis.scale.memory import predict_memory
from bench.analysis.scale.network import LinkedNodes
from bench.analysis.scale.sendings import sendings
from bench.analysis.scale.steps import Parts, predict_step
from bench.analysis.scale.tables import COUNTED, STRONG, TEXTBOOK, WEAK
from bench.analysis.scale.topology import DeviceKind, Topology
from bench.config.choices import DIVIDED, SIXTEEN_BITS
from bench.config.schema import Config
from bench.errors import UserError
from bench.results.prediction import BYTES_OF_16_BITS, FP32_BYTES
from bench.results.step_parts import ModelFacts
from bench.statistics.intervals import Floats

WORLD_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

SHARDINGS = ("ddp", "zero1", "zero2", "zero3", "fsdp2")  # what is predicted: libraries' own shardings
DRAWS, SEED = 256, 1  # the draws that bands are made from; the same call gives the same

STRONG_RANKS = 256
"""A strong scaling has the samples that so many ranks have with one micro-batch each: fewer ranks accumulate
gradients, more have smaller micro-batches."""

UPDATE_BYTES = Estimate(value=28, low=28, high=64)
"""What an update moves for each parameter: a fused AdamW reads weight, gradient and two moments and writes
three of them, 4 bytes each; one of several kernels (foreach) reads and writes them more often."""

COPY_BYTES = Estimate.exactly(16)
"""What copying a gradient into what is sent, and back, moves for each parameter: twice 4 bytes read and 4
written."""


CASES = (
    *((sharding, COUNTED, scaling) for scaling in (WEAK, STRONG) for sharding in SHARDINGS),
    *((sharding, TEXTBOOK, WEAK) for sharding in ("zero1", "zero2", "zero3")),
)
"""Sharding, volume and scaling of each line of a chart."""


def scaling_rows(config: Config, facts: ModelFacts, topology: Topology) -> Iterator[dict[str, Any]]:
    """A row for each case and world size.

    Raises:
        UserError: its devices do not have that precision.
    """
    device, precision = topology.device, config.precision.name
    for sharding, volume, scaling in CASES:
        ranks = np.array(WORLD_SIZES, dtype=float)
        if scaling == STRONG:  # a rank trains at least one sample
            ranks = ranks[ranks <= STRONG_RANKS * config.micro_batch]
        share = STRONG_RANKS / ranks if scaling == STRONG else np.full_like(ranks, config.grad_accum)
        # Equal draws for all: what makes a device faster makes it faster under every sharding.
        dice = Dice(DRAWS, SEED)
        network = LinkedNodes(topology, dice)
        parts = assumed_parts(facts, device, precision, dice, grad_accum=share)
        sent = sendings(
            sharding,
            facts,
            ranks=2,
            on_cuda=True,
            sixteen_bits=precision in SIXTEEN_BITS,
            textbook=volume == TEXTBOOK,
        )
        divides = "optimizer" in DIVIDED[sharding]
        step = predict_step(parts, sent, network, ranks, divides_update=divides)
        rates = share * config.micro_batch * ranks / step.total  # samples/s of all ranks
        seconds, per_second = estimates_of(step.total), estimates_of(rates)
        efficiency = estimates_of(rates / ranks / rates[:, :1])
        memory = _memory_bytes(sharding, config, facts, ranks, share)
        basis = (
            f"assumed: {device.reached_share.value:.0%} of {device.name}'s "
            f"{device.peak_flops_per_s[precision] / 1e12:g} TFLOP/s"
        )
        for place, number in enumerate(ranks):
            yield {
                "model": config.model.name,
                "topology": topology.name,
                "sharding": sharding,
                "volume": volume,
                "scaling": scaling,
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


def _memory_bytes(sharding: str, config: Config, facts: ModelFacts, ranks: Floats, share: Floats) -> Floats:
    """What a rank holds at its peak.

    Without checkpointing, autocast keeps a copy of the weights in 16 bits for the backward pass, and that
    counts as an activation. FSDP2 casts by itself and keeps none.
    """
    activations = facts.activation_bytes
    if sharding == "fsdp2" and config.precision.name in SIXTEEN_BITS and not config.checkpointing:
        activations -= BYTES_OF_16_BITS * facts.layer_parameters
    parameters, trainable = facts.parameters, facts.trainable
    held = [
        predict_memory(sharding, parameters=parameters, trainable=trainable, ranks=int(number), on_cuda=True)
        for number in ranks
    ]
    memory = np.array(held) + activations * np.minimum(1.0, share)
    if sharding == "fsdp2":  # which adds up whole gradients until the last micro-batch
        memory = memory + np.where(share > 1, FP32_BYTES * facts.trainable, 0)
    return memory


def assumed_parts(
    facts: ModelFacts, device: DeviceKind, precision: str, dice: Dice, *, grad_accum: Floats
) -> Parts:
    """The parts of a step of `grad_accum` micro-batches on one device of a kind.

    `dice` draws what is not known exactly.

    Raises:
        UserError: it is another precision than 16 bits, or one that the device does not have.
    """
    known = precisions_of(device)
    if precision not in known:
        raise UserError(
            f"what share of its peak {device.name} reaches is known in {' and '.join(known)} only",
            f"set precision={known[0]}",
        )
    peak = device.peak_flops_per_s[precision]
    flops_per_s = peak * dice.draw(device.reached_share)
    bytes_per_s = dice.draw(device.memory_bytes_per_s)
    elements, shares = ready_profile(facts)
    return Parts(
        forward=facts.forward_flops / flops_per_s,
        backward=facts.backward_flops / flops_per_s,
        update=facts.trainable * dice.draw(UPDATE_BYTES) / bytes_per_s,
        copies=facts.trainable * dice.draw(COPY_BYTES) / bytes_per_s,
        host=np.zeros_like(bytes_per_s),
        grad_accum=grad_accum,
        elements_ready=elements,
        share_ready=shares,
    )


def precisions_of(device: DeviceKind) -> list[str]:
    """The precisions in which it is known what a device reaches, the usual one first."""
    return [precision for precision in SIXTEEN_BITS if precision in device.peak_flops_per_s]


def ready_profile(facts: ModelFacts) -> tuple[Draws, Draws]:
    """Shares of all gradients, and of the backward pass's FLOPs that are done when these are there."""
    elements = np.array([0, *(point.elements for point in facts.ready)], dtype=float) / facts.trainable
    shares = np.array([0, *(point.share for point in facts.ready)], dtype=float)
    return elements, np.minimum(shares, 1.0)
