"""Predicts a model on a topology under each sharding, where every rank trains as much as one alone."""

from dataclasses import dataclass

import numpy as np

from bench.config.choices import DEEPSPEED, DIVIDED, SIXTEEN_BITS
from bench.config.schema import Config
from bench.errors import UserError
from bench.results import prediction
from bench.results.prediction import BYTES_OF_16_BITS, FP32_BYTES
from bench.studies.scale.estimates import Dice, Estimate, estimates_of
from bench.studies.scale.model_facts import ModelFacts
from bench.studies.scale.steps import Parts, predict_step
from bench.studies.scale.topology import DeviceKind, LinkedNodes, Topology
from bench.studies.scale.traffic import DEEPSPEED_BUCKET, MAX_LIVE, traffic_of

BASE = "ddp"  # the sharding that others are compared with
SHARDINGS = (BASE, "zero1", "zero2", "zero3", "fsdp2")  # what is predicted: libraries' own shardings
WORLD_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
DRAWS, SEED = 256, 1  # the draws that ranges are made from; the same call gives the same

UPDATE_BYTES = Estimate(value=28, low=28, high=64)
"""What an update moves for each parameter: a fused AdamW reads weight, gradient and two moments and writes
three of them, 4 bytes each; one of several kernels (foreach) reads and writes them more often."""

COPY_BYTES = Estimate.exactly(16)
"""What copying a gradient into what is sent, and back, moves for each parameter: twice 4 bytes read and 4
written."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """What is predicted of a sharding at a world size."""

    sharding: str
    ranks: int
    samples_per_s: Estimate  # of all ranks
    efficiency: Estimate  # samples/s of a rank, as a share of those of a rank alone
    over_base: Estimate  # samples/s over those of DDP
    exposed: float  # share of the step by which sending makes it longer
    needed_gib: float  # of a rank's memory
    fits: bool  # whether the device has as much


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A model on a topology."""

    config: Config
    facts: ModelFacts
    topology: Topology
    lines: dict[str, list[Point]]  # by sharding, at each of `WORLD_SIZES`


def predict(config: Config, facts: ModelFacts, topology: Topology) -> Prediction:
    """Predict every sharding at every world size; UserError if its devices do not have that precision."""
    device, precision = topology.device, config.precision.name
    ranks = np.array(WORLD_SIZES, dtype=float)
    rates = {}
    exposed = {}
    for sharding in SHARDINGS:
        # The same draws for all: a faster device is faster under every sharding.
        dice = Dice(DRAWS, SEED)
        network = LinkedNodes(topology, dice)
        parts = _parts(facts, device, precision, dice, grad_accum=config.grad_accum)
        traffic = traffic_of(sharding, facts, ranks=2, sixteen_bits=precision in SIXTEEN_BITS)
        divides = "optimizer" in DIVIDED[sharding]
        step = predict_step(parts, traffic, network, ranks, divides_update=divides)
        rates[sharding] = config.grad_accum * config.micro_batch * ranks / step.total
        exposed[sharding] = (step.exposed / step.total)[0]
    lines = {}
    for sharding, rate in rates.items():
        figures = (rate, rate / ranks / rate[:, :1], rate / rates[BASE])
        samples_per_s, efficiency, over_base = map(estimates_of, figures)
        needed = [_memory_bytes(sharding, config, facts, number) for number in WORLD_SIZES]
        lines[sharding] = [
            Point(
                sharding=sharding,
                ranks=number,
                samples_per_s=samples_per_s[place],
                efficiency=efficiency[place],
                over_base=over_base[place],
                exposed=float(exposed[sharding][place]),
                needed_gib=needed[place] / 2**30,
                fits=needed[place] <= device.memory_bytes.value,
            )
            for place, number in enumerate(WORLD_SIZES)
        ]
    return Prediction(config=config, facts=facts, topology=topology, lines=lines)


def _memory_bytes(sharding: str, config: Config, facts: ModelFacts, ranks: int) -> float:
    """What a rank holds at its peak.

    Without checkpointing, autocast keeps a copy of the weights in 16 bits for the backward pass, and that
    counts as an activation. FSDP2 casts by itself and keeps none.
    """
    memory = facts.activation_bytes + predict_memory(
        sharding, parameters=facts.parameters, trainable=facts.trainable, ranks=ranks, on_cuda=True
    )
    if sharding == "fsdp2":
        if config.precision.name in SIXTEEN_BITS and not config.checkpointing:
            memory -= BYTES_OF_16_BITS * facts.layer_parameters
        if config.grad_accum > 1:  # whole gradients are added up until the last micro-batch
            memory += FP32_BYTES * facts.trainable
    return memory


def predict_memory(
    sharding: str, *, parameters: int, trainable: int, ranks: int, on_cuda: bool, optimizer: str = "adamw"
) -> float:
    """Bytes of weights, gradients, the optimizer's states, and of what they are copied to to be sent."""
    states = prediction.predict(
        parameters=parameters,
        trainable=trainable,
        optimizer=optimizer,
        sharding=sharding,
        world_size=ranks,
        device="cuda" if on_cuda else "cpu",
    )
    buckets = bucket_bytes(sharding, parameters=parameters, trainable=trainable, ranks=ranks, on_cuda=on_cuda)
    return states.weights + states.gradients + states.optimizer + buckets


def bucket_bytes(sharding: str, *, parameters: int, trainable: int, ranks: int, on_cuda: bool) -> float:
    """Memory of buffers for sending and receiving.

    DDP keeps every gradient a second time, in its buckets (without gradient_as_bucket_view, its default).
    DeepSpeed keeps a bucket, two of them where it sends one while it fills the other, and this rank's part
    of the averaged gradients. Its stage 3 fills one bucket and puts its tensors in another order in a second
    (reduce_scatter_coalesced), which gloo copies once more, and keeps weights gathered, up to
    stage3_max_live_parameters. FSDP2 keeps a layer, which is small beside the rest and left out.
    """
    if sharding in DEEPSPEED:
        bucket = min(DEEPSPEED_BUCKET, trainable)
        part = trainable / ranks
        if DIVIDED[sharding][-1] == "weights":
            gathered = min(MAX_LIVE, parameters) if ranks > 1 else 0
            return FP32_BYTES * ((2 if on_cuda else 3) * bucket + part + gathered)
        return FP32_BYTES * ((2 if on_cuda else 1) * bucket + part)
    if sharding in ("ddp", "zero_redundancy") and ranks > 1:
        return FP32_BYTES * trainable
    return 0.0


def _parts(facts: ModelFacts, device: DeviceKind, precision: str, dice: Dice, *, grad_accum: int) -> Parts:
    """The parts of a step on a device, drawn with `dice`; UserError if its rate is not known."""
    known = precisions_of(device)
    if precision not in known:
        raise UserError(
            f"what share of its peak {device.name} reaches is known in {' and '.join(known)} only",
            f"set precision={known[0]}",
        )
    flops_per_s = device.peak_flops_per_s[precision] * dice.draw(device.reached_share)
    bytes_per_s = dice.draw(device.memory_bytes_per_s)
    elements, shares = np.array([(0, 0), *facts.ready], dtype=float).T
    return Parts(
        forward=facts.forward_flops / flops_per_s,
        backward=facts.backward_flops / flops_per_s,
        update=facts.trainable * dice.draw(UPDATE_BYTES) / bytes_per_s,
        copies=facts.trainable * dice.draw(COPY_BYTES) / bytes_per_s,
        grad_accum=grad_accum,
        elements_ready=elements / facts.trainable,
        share_ready=np.minimum(shares, 1.0),
    )


def precisions_of(device: DeviceKind) -> list[str]:
    """The precisions in which a device's achieved rate is known, bf16 first."""
    return [precision for precision in SIXTEEN_BITS if precision in device.peak_flops_per_s]
