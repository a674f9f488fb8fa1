"""Precision, gradient accumulation and checkpointing under the real backends: tiny models, two CPU ranks."""

import dataclasses
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from configs import BACKENDS, a_config
from rich.console import Console

from bench.config import Backend, Config, Precision
from bench.coordinator import Comparison
from bench.parity import GRADIENT_TOLERANCE, LOSS_TOLERANCE
from bench.progress import Bar

ROOT = Path(__file__).resolve().parents[1]

ALL = {**BACKENDS, "pytorch_zero1": Backend(engine="eager", optimizer="adamw", sharding="zero1")}

two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores of their own"
)


def a_config_in(
    folder: Path, precision: Precision, names: list[str], *, grad_accum: int = 1, steps: int = 12
) -> Config:
    """Two CPU ranks, a learning rate that moves the loss by far more than a tolerance."""
    config = a_config(
        folder, parity_steps=steps, parity_tolerance=LOSS_TOLERANCE[precision.name], timeout_s=300
    )
    return dataclasses.replace(
        config,
        backends={name: ALL[name] for name in names},
        precision=precision,
        grad_accum=grad_accum,
        adam=dataclasses.replace(config.adam, lr=2e-3, weight_decay=0.01),
    )


FP16 = Precision(name="fp16", initial_scale=65536, growth_steps=2000)


@pytest.mark.timeout(600)
@two_cores
@pytest.mark.parametrize(
    ("precision", "grad_accum", "names"),
    [
        # A scale at which the first steps overflow, and one that doubles on the way.
        (Precision(name="fp16", initial_scale=2.0**24, growth_steps=3), 1, list(ALL)),
        (FP16, 4, list(ALL)),
        (Precision(name="bf16"), 4, ["pytorch", "pytorch_zero1"]),
        (Precision(name="fp32"), 4, list(BACKENDS)),
    ],
    ids=["fp16", "fp16-accumulated", "bf16-accumulated", "fp32-accumulated"],
)
def test_all_backends_train_alike_in_every_precision_and_with_accumulated_gradients(
    tmp_path: Path, precision: Precision, grad_accum: int, names: list[str]
) -> None:
    comparison = Comparison(a_config_in(tmp_path, precision, names, grad_accum=grad_accum), "m-cpux2")
    with Bar(comparison.planned(), Console(quiet=True)) as bar:
        passed = comparison.check_parity(bar)
    assert sorted(passed) == sorted(names), comparison.failures()
    found = comparison.ledger.trajectories
    reference = found["pytorch"]
    for name in names:
        gradients = [
            abs(one / other - 1)
            for one, other in zip(found[name].gradient_norms, reference.gradient_norms, strict=True)
        ]
        loss = comparison.ledger.loss_differences[name]
        print(f"{precision.name} x{grad_accum} {name}: loss {loss:.1e}, gradient {max(gradients):.1e}")
        assert max(gradients) < GRADIENT_TOLERANCE[precision.name]
    assert reference.losses[-1] < reference.losses[0] * 0.95
