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

from bench.config.backend import Backend
from bench.config.choices import LOSS_TOLERANCE
from bench.config.schema import Config
from bench.config.training import Precision
from bench.launch.messages import Build, TakeFirstStep, TimeBlock, UseFirstBatches
from bench.measure.comparison import Comparison
from bench.measure.launches import PARITY
from bench.measure.parity import GRADIENT_TOLERANCE
from bench.setup import stacks
from tests.support.configs import BACKENDS, a_config

ROOT = Path(__file__).resolve().parents[2]

ALL = {**BACKENDS, "pytorch_zero1": Backend(engine="eager", optimizer="adamw", sharding="zero1")}
HERE = list(BACKENDS) if stacks.own() == "ort" else ["pytorch", "pytorch_zero1"]
ENGINES = ("eager", "ortmodule") if stacks.own() == "ort" else ("eager",)

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


@pytest.mark.timeout(600)
@two_cores
@pytest.mark.parametrize(
    ("precision", "grad_accum", "names"),  # fp32: tests/real/test_backends.py
    [
        # A scale at which the first steps overflow, and one that doubles on the way.
        (Precision(name="fp16", initial_scale=2.0**24, growth_steps=3), 4, HERE),
        pytest.param(Precision(name="bf16"), 4, ["pytorch", "pytorch_zero1"], marks=pytest.mark.long),
    ],
    ids=["fp16-accumulated", "bf16-accumulated"],
)
def test_all_backends_train_alike_in_16_bits_and_with_accumulated_gradients(
    tmp_path: Path, precision: Precision, grad_accum: int, names: list[str]
) -> None:
    comparison = Comparison(a_config_in(tmp_path, precision, names, grad_accum=grad_accum), "m-cpux2")
    passed = comparison.parity.run(comparison.names)
    assert sorted(passed) == sorted(names), comparison.failures.failure_lines()
    found = comparison.parity.trajectories
    reference = found["pytorch"]
    for name in names:
        gradients = [
            abs(one / other - 1)
            for one, other in zip(found[name].gradient_norms, reference.gradient_norms, strict=True)
        ]
        loss = comparison.parity.loss_differences[name]
        print(f"{precision.name} x{grad_accum} {name}: loss {loss:.1e}, gradient {max(gradients):.1e}")
        assert max(gradients) < GRADIENT_TOLERANCE[precision.name]
    assert reference.losses[-1] < reference.losses[0] * 0.95


@pytest.mark.long
@pytest.mark.timeout(300)
@two_cores
def test_an_overflow_is_skipped_alike_halves_the_scale_and_leaves_the_weights_alone(tmp_path: Path) -> None:
    huge = Precision(name="fp16", initial_scale=2.0**40, growth_steps=1000)
    names = ["pytorch", "pytorch_zero1"]
    comparison = Comparison(a_config_in(tmp_path, huge, names, grad_accum=4), "m-cpux2")
    skipping, first, after = {}, {}, {}
    with ExitStack() as stack:
        for name in names:  # launch 0: dropout is off, the reference saves the initial state
            group = stack.enter_context(comparison.starter.start(name, PARITY))
            group.connect()
            group.request(Build())
            group.request(UseFirstBatches(count=4))  # every step sees the same
            skipping[name] = group.request(TimeBlock(steps=3))
            first[name] = group.request(TakeFirstStep())
            after[name] = group.request(TimeBlock(steps=3))
            group.end()
    for name in names:
        for rank in range(2):
            loss = skipping[name][rank].losses[0]
            assert skipping[name][rank].losses == [loss] * 3, "a skipped step changes no weight"
            assert skipping[name][rank].skipped_steps == 3
            assert skipping[name][rank].loss_scale == 2.0**37
            # Whatever the first step is, what is read after it comes from one that was taken.
            assert first[name][rank].skipped_steps == 1
            assert first[name][rank].optimizer_state_bytes > 0
            assert after[name][rank].skipped_steps == 0
            assert after[name][rank].losses[-1] < after[name][rank].losses[0] < loss
            assert 1 < (after[name][rank].loss_scale or 0) < 2.0**36
            scaling = first[name][rank].proof["sharding"]["loss_scaling"]
            assert scaling.pop("class").endswith("Scaler")
            assert scaling == {"initial_scale": 2.0**40, "growth_steps": 1000, "growth": 2, "backoff": 0.5}
            found = first[name][rank].proof["precision"]
            assert found == {"autocast": "torch.float16", "updated": ["torch.float32"]}
    assert len({answer.loss_scale for name in names for answer in after[name]}) == 1
    for one, other in zip(after["pytorch"], after["pytorch_zero1"], strict=True):
        assert one.losses == pytest.approx(other.losses, rel=1e-5)


@pytest.fixture(scope="module")
def alone() -> dict[str, dict[str, Any]]:
    """What each engine does in a process of its own, by engine and case."""
    # Only what the engines read: nothing of what this process or the user has set.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORTMODULE_")}
    done = {
        engine: subprocess.Popen(
            [sys.executable, "-c", _ALONE, engine],
            cwd=ROOT,
            env={
                **kept,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
                "ORTMODULE_FALLBACK_POLICY": "FALLBACK_DISABLE",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for engine in ENGINES
    }
    return {engine: json.loads(process.communicate()[0].splitlines()[-1]) for engine, process in done.items()}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["eager", pytest.param("ortmodule", marks=pytest.mark.ort)])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_checkpointing_changes_no_loss(alone: dict[str, Any], engine: str, precision: str) -> None:
    tolerance = {"fp32": 1e-6, "fp16": 1e-4}[precision]
    found, expected = alone[engine], alone["eager"]["fp32"]
    checkpointed = found[f"{precision} checkpointed"]
    assert checkpointed["losses"] == pytest.approx(found[precision]["losses"], rel=tolerance)
    assert checkpointed["losses"] == pytest.approx(expected["losses"], rel=LOSS_TOLERANCE[precision])


@pytest.mark.ort
@pytest.mark.timeout(300)
def test_checkpointed_layers_are_really_recomputed(alone: dict[str, Any]) -> None:
    for precision in ("fp32", "fp16"):
        proof = alone["ortmodule"][f"{precision} checkpointed"]["proof"]
        assert proof["memory_opt_level"] == 1
        assert proof["recompute_nodes"] > 20
        plain = alone["ortmodule"][precision]["proof"]
        assert (plain["memory_opt_level"], plain["recompute_nodes"]) == (0, 0)
        assert alone["eager"][f"{precision} checkpointed"]["proof"]["checkpointed"] == ["bert.encoder"]
        assert alone["eager"][precision]["proof"]["checkpointed"] == []


@pytest.mark.ort
@pytest.mark.timeout(300)
def test_checkpointing_that_recomputes_nothing_is_a_fallback(alone: dict[str, Any]) -> None:
    status, message = alone["ortmodule"]["checkpointed in vain"]["failed"]
    assert (status, "recomputes none" in message) == ("fallback", True)
    assert alone["eager"]["checkpointed in vain"]["failed"] == [
        "fallback",
        "with checkpointing=true, PyTorch checkpoints the layers of no module",
    ]


@pytest.mark.ort
@pytest.mark.timeout(300)
def test_ort_computes_in_16_bits_what_it_is_asked_to(alone: dict[str, Any]) -> None:
    assert alone["ortmodule"]["fp16"]["proof"]["casts_to_16_bits"] > 10
    assert alone["ortmodule"]["fp32"]["proof"]["casts_to_16_bits"] == 0
    # And eager does, too: the same weights and batches give another loss.
    for engine in ("eager", "ortmodule"):
        assert alone[engine]["fp16"]["losses"] != alone[engine]["fp32"]["losses"]


@pytest.mark.ort
@pytest.mark.timeout(300)
def test_ort_has_no_bf16_on_a_cpu_as_the_configuration_says_beforehand(alone: dict[str, Any]) -> None:
    status, message = alone["ortmodule"]["bf16"]["failed"]
    assert status == "unsupported"
    assert "MatMul" in message
    assert "NOT_IMPLEMENTED" in message
    assert alone["eager"]["bf16"]["losses"] == pytest.approx(alone["eager"]["fp32"]["losses"], rel=2e-2)


@pytest.mark.ort
@pytest.mark.timeout(300)
def test_what_an_ort_kernel_refuses_only_while_it_runs_is_unsupported_too(alone: dict[str, Any]) -> None:
    status, message = alone["ortmodule"]["llama fp16"]["failed"]
    assert (status, "Split operator does not support" in message) == ("unsupported", True)
    assert len(alone["eager"]["llama fp16"]["losses"]) == 3


_ALONE = """
import json, os, sys, torch
from tests.support.configs import a_model
from bench.worker import engines
from bench.errors import LaunchFailed
from bench.worker.workload import model as models, precision

LEVEL = "ORTMODULE_MEMORY_OPT_LEVEL"

def run(precise, level="", enabled=True, trained=a_model()):
    torch.manual_seed(0)
    model = models.build(trained, attention="eager", dropout=False)
    if level and enabled:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    os.environ.pop(LEVEL, None)
    if level:
        os.environ[LEVEL] = level
    precision.autocast(model, precise, "cpu")
    engine = engines.make(sys.argv[1])
    module = engine.wrap(model, threads=1, checkpointing=bool(level))
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    tokens = torch.randint(0, 512, (4, 16), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(tokens)
    mask[0, 8:] = 0
    losses = []
    try:
        for _ in range(3):
            loss = module(input_ids=tokens, attention_mask=mask, labels=tokens).loss
            name = type(loss.grad_fn).__name__
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return {"losses": losses, "proof": engine.proof(name)}
    except LaunchFailed as failure:
        return {"failed": [failure.status, failure.message]}
    except Exception as error:
        return {"failed": [engine.status_of(error), str(error)]}

torch.set_num_threads(1)
found = {
    "fp32": run("fp32"),
    "fp32 checkpointed": run("fp32", "1"),
    "fp16": run("fp16"),
    "fp16 checkpointed": run("fp16", "1"),
    "checkpointed in vain": run("fp32", "0", enabled=False),
    "bf16": run("bf16"),
    # Its rotary embedding's gradient is a Split, for which ONNX Runtime has no fp16 kernel on a CPU.
    "llama fp16": run("fp16", trained=a_model(architecture="llama", task="causal-lm")),
}
print()
print(json.dumps(found))
"""
