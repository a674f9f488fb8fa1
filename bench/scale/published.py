"""Rows of results/predicted/published.csv: ZeRO stage 1 over DDP on 8 × V100, published and predicted.

What a step with DDP took is known from the published throughput. From it the model takes away what DDP's
sending and update are predicted to take, and adds what ZeRO's are: 16-bit gradients and weights, each rank
updates an eighth. How the published steps were made is partly known (transformers' Trainer of the time in
fp16, DeepSpeed's fp16 mode); what is assumed of them stands in this file.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.analysis.reference import read_published_figures
from bench.analysis.scale.estimates import Dice, Estimate, estimates_of
from bench.analysis.scale.network import LinkedNodes
from bench.analysis.scale.sendings import Sending, sendings
from bench.analysis.scale.steps import Parts, StepSeconds, predict_step
from bench.analysis.scale.topology import Topology, load
from bench.results.step_parts import ModelFacts
from bench.scale.facts import facts_of
from bench.scale.predict import COPY_BYTES, UPDATE_BYTES, ready_profile
from bench.statistics.intervals import Floats

TOPOLOGY = "v100x8"
RANKS = 8
HARDWARE = "8x V100"  # how the hardware of the figures begins

TASKS = {"pytorch": "pytorch_zero1", "ortmodule": "ortmodule_zero1"}
"""Engines, and with which backend ZeRO was published for them."""

UNFUSED_BYTES = Estimate(value=110, low=80, high=140)
"""What an update of plain PyTorch moved for each parameter: transformers' AdamW of the time reads and writes
each tensor in some nine operators, and Trainer clips the gradient's norm and unscales it: counted off its
code, 4 bytes each."""

KERNELS = 9  # operators of that update on each tensor, one after the other from the host

LAUNCH = Estimate(value=6e-6, low=4e-6, high=10e-6)
"""Seconds of an operator of PyTorch's on the host, as usually reported."""

DRAWS, SEED = 512, 1

ROUNDS = 30  # after which the passes' seconds no longer change
SHORTEST = 0.05  # share of a step's seconds that forward and backward pass take at least
UNCERTAIN = "typo-suspected"  # the flag of figures that are not compared

_CASTS = (
    "the published ratio is larger: DeepSpeed's fp16 mode computes all in 16 bits, where autocast casts "
    "weights in every pass and keeps some operators in fp32; that passes become faster so is not predicted"
)

WHY = {
    "gpt2": _CASTS,
    "distilbert-base": _CASTS,
    "deberta-v2-xxlarge": "the published ratio is smaller: an update of 1.5 billion parameters should take "
    "long and be worth dividing, and the published step has no room for it; so it was faster than assumed, "
    "or ZeRO spent what it saved",
    "t5-large": "the published ratio is below 1: on one node nothing in this model makes ZeRO slower; what "
    "does, such as looking for overflows in every gradient and skipped steps, is not counted",
}
"""What is known, or guessed, of ratios that are missed most."""


def published_rows() -> Iterator[dict[str, Any]]:
    """A row for each model and engine."""
    topology = load(TOPOLOGY)
    known = read_published_figures()
    known = known[known["hardware"].str.startswith(HARDWARE) & (known["precision"] == "fp16")]
    facts: dict[str, ModelFacts] = {}
    for (source, model), group in known.groupby(["source_ref", "model"], sort=False):
        stated = group[(group["samples_per_s"] != "") & (group["flag"] != UNCERTAIN)]
        rates = dict(zip(stated["backend"], map(float, stated["samples_per_s"]), strict=True))
        for engine, zero in TASKS.items():
            if not {engine, zero} <= set(rates):
                continue
            micro_batch = int(group["micro_batch"].iloc[0])
            if model not in facts:
                _, facts[model] = facts_of(
                    [f"model={model}", "model.lora=null", "precision=fp16"], micro_batch=micro_batch
                )
            ratio = predict_ratio(facts[model], topology, engine, RANKS * micro_batch / rates[engine])
            published = rates[zero] / rates[engine]
            yield {
                "model": model,
                "hardware": group["hardware"].iloc[0],
                "engine": engine,
                "source": source,
                "why": WHY.get(str(model), ""),
                "ranks": RANKS,
                "micro_batch": micro_batch,
                "published_ratio": published,
                **ratio.cells("predicted_ratio"),
                "error": ratio.value / published - 1,
            }


def predict_ratio(facts: ModelFacts, topology: Topology, engine: str, ddp_seconds: float) -> Estimate:
    """Throughput of ZeRO stage 1 over that of DDP, on one node, whose published step takes `ddp_seconds`.

    The engine `ortmodule` gives all gradients at its end, so that nothing hides their sending.
    """
    dice = Dice(DRAWS, SEED)
    network = LinkedNodes(topology, dice)
    bytes_per_s = dice.draw(topology.device.memory_bytes_per_s)
    fused = facts.trainable * dice.draw(UPDATE_BYTES) / bytes_per_s
    unfused = np.maximum(
        facts.trainable * dice.draw(UNFUSED_BYTES) / bytes_per_s,
        len(facts.tensors) * KERNELS * dice.draw(LAUNCH),
    )
    copies = facts.trainable * dice.draw(COPY_BYTES) / bytes_per_s
    elements, shares = ready_profile(facts)
    if engine == "ortmodule":
        elements, shares = np.array([0.0, 1.0]), np.array([1.0, 1.0])
    ranks = np.array([float(RANKS)])

    def step(passes: Floats, update: Any, sent: list[Sending], *, divides_update: bool) -> StepSeconds:
        parts = Parts(
            forward=passes / 3,
            backward=passes * 2 / 3,
            update=update,
            copies=copies,
            host=np.zeros_like(passes),
            grad_accum=1,
            elements_ready=elements,
            share_ready=shares,
        )
        return predict_step(parts, sent, network, ranks, divides_update=divides_update)

    update = unfused if engine == "pytorch" else fused
    ddp = sendings("ddp", facts, ranks=RANKS, on_cuda=True)
    zero = sendings("zero1_native", facts, ranks=RANKS, on_cuda=True, textbook=True)
    passes = np.full_like(bytes_per_s, ddp_seconds)
    for _ in range(ROUNDS):  # what is exposed depends on how long the passes are
        missed = step(passes, update, ddp, divides_update=False).total - ddp_seconds
        passes = np.maximum(passes - missed, SHORTEST * ddp_seconds)
    with_zero = step(passes, fused, zero, divides_update=True)
    with_ddp = step(passes, update, ddp, divides_update=False)
    return estimates_of(with_ddp.total / with_zero.total)[0]
