"""Precision, gradient accumulation and checkpointing under the real backends: tiny models, two CPU ranks."""

import dataclasses
import itertools
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from bench.config.backend import Backend
from bench.config.choices import LOSS_TOLERANCE
from bench.config.schema import Config
from bench.config.training import Precision
from bench.errors import LaunchFailed
from bench.launch.messages import BlockTimed, Build, FirstStepTaken, TakeFirstStep, TimeBlock, UseBatches
from bench.launch.spec import WorkerSpec
from bench.measure.comparison import Comparison
from bench.measure.groups.starting import GroupStarter
from bench.measure.plan.plans import PARITY, Launch
from bench.measure.plan.resolve import GRADIENT_TOLERANCE
from bench.setup import stacks
from tests.support.comparisons import RecordingBar
from tests.support.configs import BACKENDS, a_config
from tests.support.cores import two_cores
from tests.support.python import run_python

ALL = {
    **BACKENDS,
    "pytorch_zero1": Backend(engine="eager", optimizer="adamw", sharding="zero1"),
    "native": Backend(engine="eager", optimizer="adamw", sharding="zero1_native"),
    "fsdp2": Backend(engine="eager", optimizer="adamw", sharding="fsdp2"),
}
HERE = list(BACKENDS) if stacks.own() == "ort" else ["pytorch", "pytorch_zero1"]
ENGINES = ("eager", "ortmodule") if stacks.own() == "ort" else ("eager",)

pytestmark = pytest.mark.usefixtures("forked")


def _deepspeed_has_fp16() -> bool:
    from deepspeed.accelerator import get_accelerator

    return bool(get_accelerator().is_fp16_supported())


def a_config_in(
    folder: Path, precision: str, names: list[str], *, grad_accum: int = 1, steps: int = 12
) -> Config:
    """Two CPU ranks, a learning rate that moves the loss by far more than a tolerance."""
    config = a_config(folder, parity_steps=steps, parity_tolerance=LOSS_TOLERANCE[precision])
    return dataclasses.replace(
        config,
        backends={name: ALL[name] for name in names},
        precision=Precision(name=precision),
        grad_accum=grad_accum,
        adam=dataclasses.replace(config.adam, lr=2e-3, weight_decay=0.01),
    )


def a_config_of(name: str, folder: Path, precision: str) -> Config:
    """One backend, which is its own reference."""
    config = a_config(folder, parity_tolerance=LOSS_TOLERANCE[precision])
    precise = Precision(name=precision)
    return dataclasses.replace(config, backends={name: ALL[name]}, reference=name, precision=precise)


def scale_loss(monkeypatch: pytest.MonkeyPatch, *, initial_scale: float, growth_steps: int) -> None:
    """Let the scale of ranks that are started from now on begin and double elsewhere, so that it moves."""
    spec = GroupStarter.spec

    def changed(self: GroupStarter, name: str, launch: Launch) -> WorkerSpec:
        own = spec(self, name, launch)
        return dataclasses.replace(own, initial_scale=initial_scale, growth_steps=growth_steps)

    monkeypatch.setattr(GroupStarter, "spec", changed)


def scaled(
    comparison: Comparison, name: str, numbers: list[int]
) -> tuple[list[BlockTimed], list[FirstStepTaken], list[BlockTimed]]:
    """What both ranks answer to three steps, the first that must be taken, and three more."""
    with comparison.shared.starter.start(name, PARITY) as group:  # dropout is off
        group.connect()
        group.request(Build())
        group.request(UseBatches(numbers=[numbers]))  # every step sees the same
        skipping = group.request(TimeBlock(steps=3))
        first = group.request(TakeFirstStep())
        after = group.request(TimeBlock(steps=3))
        group.end()
    return skipping, first, after


@two_cores
def test_all_backends_train_alike_in_fp16_and_with_accumulated_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a scale at which the first steps overflow, and that doubles on the way."""
    scale_loss(monkeypatch, initial_scale=2.0**24, growth_steps=3)
    comparison = Comparison(a_config_in(tmp_path, "fp16", HERE, grad_accum=4), "m-cpux2")
    passed = comparison.parity.run(comparison.shared.names)
    assert sorted(passed) == sorted(HERE), comparison.shared.failures.failure_lines()
    found = comparison.parity.trajectories
    reference = found["pytorch"]
    for name in HERE:
        gradients = [
            abs(one / other - 1)
            for one, other in zip(found[name].gradient_norms, reference.gradient_norms, strict=True)
        ]
        known = comparison.shared.ledger.templates[name]
        print(f"{name}: loss {known.loss_difference:.1e}, gradient {max(gradients):.1e}")
        assert max(gradients) < GRADIENT_TOLERANCE["fp16"]
        worst = known.worst_tensors
        print(f"    worst tensors: {worst}")
        assert set(worst) == {"fp16", "fp32"}
        assert worst["fp32"].share() < 0.2, "a multiple of rounding that leaves room"
    assert reference.losses[-1] < reference.losses[0] * 0.95


@pytest.mark.exhaustive
@two_cores
def test_an_overflow_is_skipped_alike_halves_the_scale_and_leaves_the_weights_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale_loss(monkeypatch, initial_scale=2.0**40, growth_steps=1000)
    names = ["pytorch", "pytorch_zero1"]
    comparison = Comparison(a_config_in(tmp_path, "fp16", names, grad_accum=4), "m-cpux2")
    ends = []
    for name in names:  # the reference comes first and saves the initial state
        for skipping, first, after in zip(*scaled(comparison, name, [0, 1, 2, 3]), strict=True):
            loss = skipping.losses[0]
            assert skipping.losses == [loss] * 3, "a skipped step changes no weight"
            assert (skipping.skipped_steps, skipping.loss_scale) == (3, 2.0**37)
            # Whatever the first step is, what is read after it comes from one that was taken.
            assert first.skipped_steps == 1
            assert first.optimizer_state_bytes > 0
            assert after.skipped_steps == 0
            assert after.losses[-1] < after.losses[0] < loss
            assert 1 < (after.loss_scale or 0) < 2.0**36
            scaling = first.proof["sharding"]["loss_scaling"]
            assert scaling.pop("class").endswith("Scaler")
            assert scaling == {"initial_scale": 2.0**40, "growth_steps": 1000, "growth": 2, "backoff": 0.5}
            found = first.proof["precision"]
            assert found == {"autocast": "torch.float16", "updated": ["torch.float32"]}
            ends.append(after)
    assert len({after.loss_scale for after in ends}) == 1
    for one, other in zip(ends[:2], ends[2:], strict=True):
        assert one.losses == pytest.approx(other.losses, rel=1e-5)


@two_cores
@pytest.mark.parametrize(
    "name",
    [
        "native",
        pytest.param(
            "fsdp2", marks=pytest.mark.skipif(stacks.own() != "modern", reason="about today's torch")
        ),
    ],
)
def test_what_casts_by_itself_trains_like_autocast(tmp_path: Path, name: str) -> None:
    config = a_config_in(tmp_path, "bf16", ["pytorch", name], grad_accum=2, steps=8)
    comparison = Comparison(config, "m-cpux2", bar=(bar := RecordingBar()))
    passed = comparison.parity.run(comparison.shared.names)
    assert passed == ["pytorch", name], comparison.shared.failures.failure_lines()
    parity, known = comparison.parity, comparison.shared.ledger.templates[name]
    print(f"{name}: loss {known.loss_difference:.1e}", known.worst_tensors["bf16"])
    proof = known.proof
    assert proof["precision"] == {"autocast": None, "updated": ["torch.float32"]}
    if name == "native":
        assert proof["sharding"]["mode"] == "bf16"
        assert proof["sharding"]["weights"] == ["torch.bfloat16"]
        assert proof["sharding"]["gradients"] == "torch.bfloat16"
    else:
        assert proof["sharding"]["gathered"] == ["torch.bfloat16"]
    without = "native: tensors are compared in bf16 alone, not in fp32: it has none"
    assert set(known.worst_tensors) == ({"bf16"} if name == "native" else {"bf16", "fp32"})
    assert set(comparison.shared.ledger.templates["pytorch"].worst_tensors) == {"bf16", "fp32"}
    assert (without in bar.printed) == (name == "native")
    assert proof["precision"] != comparison.shared.ledger.templates["pytorch"].proof["precision"]
    losses = parity.trajectories[name].losses
    assert losses != parity.trajectories["pytorch"].losses, "or the same was cast"
    assert losses[-1] < losses[0] * 0.97


@pytest.mark.exhaustive
@two_cores
@pytest.mark.skipif(stacks.own() != "modern", reason="about today's torch")
def test_fsdp2_casts_to_fp16_and_skips_what_overflows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale_loss(monkeypatch, initial_scale=2.0**24, growth_steps=1000)
    comparison = Comparison(a_config_of("fsdp2", tmp_path, "fp16"), "m-cpux2")
    for skipping, first, after in zip(*scaled(comparison, "fsdp2", [0]), strict=True):
        assert (skipping.skipped_steps, skipping.loss_scale) == (3, 2.0**21)
        assert after.losses[-1] < after.losses[0] < skipping.losses[0]
        proof = first.proof
        assert proof["sharding"]["gathered"] == ["torch.float16"]
        assert proof["sharding"]["loss_scaling"]["initial_scale"] == 2.0**24
        assert proof["precision"] == {"autocast": None, "updated": ["torch.float32"]}


@pytest.mark.exhaustive
@two_cores
def test_deepspeed_s_own_fp16_is_unsupported_on_a_cpu_without_it(tmp_path: Path) -> None:
    if _deepspeed_has_fp16():
        pytest.skip("DeepSpeed has fp16 on this CPU")
    comparison = Comparison(a_config_of("native", tmp_path, "fp16"), "m-cpux2")
    with comparison.shared.starter.start("native", PARITY) as group:
        group.connect()
        with pytest.raises(LaunchFailed, match=r"^DeepSpeed .* says that cpu has no fp16 here") as caught:
            group.request(Build())
    assert caught.value.status == "unsupported"


@pytest.fixture(scope="module")
def native() -> dict[str, dict[str, Any]]:
    """In a process in which DeepSpeed is told that the CPU has fp16; torch computes in it, if slowly."""
    return in_a_process(_NATIVE_FP16, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", ["eager", pytest.param("ortmodule", marks=pytest.mark.ort)])
def test_deepspeed_s_own_fp16_scales_the_loss_and_keeps_the_gradient(
    engine: str, native: dict[str, Any]
) -> None:
    found = native[engine]
    steps = found["steps"]
    overflowed = [skipped - before for before, skipped in itertools.pairwise([0, *steps["skipped"]])]
    print(engine, steps, found["worst"])
    assert overflowed[0] == 1, "the scale to begin with is too large"
    assert 0 in overflowed[:4], "and is soon small enough"
    scale, since = 2.0**18, 0
    for lost, after in zip(overflowed, steps["scale"], strict=True):
        since = 0 if lost else since + 1
        # growth_steps is 2, and DeepSpeed 0.19.8 takes a step more
        counted = since - (stacks.own() == "modern")
        scale = scale / 2 if lost else scale * (2 if counted > 0 and counted % 2 == 0 else 1)
        assert after == scale
    assert [math.isinf(norm) for norm in steps["norm"]] == [bool(lost) for lost in overflowed]
    assert found["worst"] < 0.01, "of the gradient in fp32"
    first = overflowed.index(0)
    assert steps["norm"][first] == pytest.approx(found["expected_norm"], rel=5e-3)
    assert steps["loss"][: first + 1] == steps["loss"][:1] * (first + 1), "a skipped step changes no weight"
    assert steps["loss"][-1] < steps["loss"][0]
    assert found["proof"]["mode"] == "fp16"
    assert found["proof"]["weights"] == ["torch.float16"]
    scaling = found["proof"]["loss_scaling"]
    assert scaling.pop("class").endswith("DynamicLossScaler")
    assert scaling == {"initial_scale": 2.0**18, "growth_steps": 2, "growth": 2, "backoff": 0.5}
    assert found["at the end"] == ["diverged", "the gradient overflows in fp16 even with a scale of 1"]


@pytest.fixture(scope="module")
def alone() -> dict[str, dict[str, Any]]:
    """What each engine does, by engine and case."""
    return in_a_process(_ALONE)


def in_a_process(script: str, **variables: str) -> Any:
    """What it prints of `ENGINES`."""
    needed = {"OMP_NUM_THREADS": "1", "ORTMODULE_FALLBACK_POLICY": "FALLBACK_DISABLE", **variables}
    with pytest.MonkeyPatch.context() as patched:
        # Only what the engines read: nothing of what this process or the user has set.
        for name in [name for name in os.environ if name.startswith("ORTMODULE_")]:
            patched.delenv(name)
        done = run_python("-c", script, *ENGINES, check=True, variables=needed)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("engine", ["eager", pytest.param("ortmodule", marks=pytest.mark.ort)])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_checkpointing_recomputes_layers_and_changes_no_loss_and_fp16_is_fp16(
    alone: dict[str, Any], engine: str, precision: str
) -> None:
    tolerance = {"fp32": 1e-6, "fp16": 1e-4}[precision]
    found, expected = alone[engine], alone["eager"]["fp32"]
    plain, checkpointed = found[precision], found[f"{precision} checkpointed"]
    assert checkpointed["losses"] == pytest.approx(plain["losses"], rel=tolerance)
    assert checkpointed["losses"] == pytest.approx(expected["losses"], rel=LOSS_TOLERANCE[precision])
    assert found["fp16"]["losses"] != found["fp32"]["losses"]
    if engine == "eager":
        by_layer = ["bert", "bert.encoder.layer.0", "bert.encoder.layer.1"]  # of transformers 5
        assert plain["proof"]["checkpointed"] == []
        assert checkpointed["proof"]["checkpointed"] in (["bert.encoder"], by_layer)
        return
    assert (plain["proof"]["options"]["memory_level"], plain["proof"]["recompute_nodes"]) == (0, 0)
    assert checkpointed["proof"]["options"]["memory_level"] == 1
    assert checkpointed["proof"]["recompute_nodes"] > 20
    casts = plain["proof"]["casts_to_16_bits"]
    assert casts > 10 if precision == "fp16" else casts == 0


@pytest.mark.ort
def test_checkpointing_that_recomputes_nothing_is_a_fallback(alone: dict[str, Any]) -> None:
    status, message = alone["ortmodule"]["checkpointed in vain"]["failed"]
    assert (status, "recomputes none" in message) == ("fallback", True)
    assert alone["eager"]["checkpointed in vain"]["failed"] == [
        "fallback",
        "with checkpointing=true, PyTorch checkpoints the layers of no module",
    ]


@pytest.mark.ort
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("bf16", "MatMul .*NOT_IMPLEMENTED|NOT_IMPLEMENTED.* MatMul"),
        ("llama fp16", "Split operator does not support"),
    ],
)
def test_what_ort_has_no_kernel_for_when_it_is_built_or_runs_is_unsupported(
    alone: dict[str, Any], case: str, words: str
) -> None:
    status, message = alone["ortmodule"][case]["failed"]
    assert status == "unsupported"
    assert re.search(words, message, re.DOTALL), message
    eager = alone["eager"][case]["losses"]
    assert len(eager) == 3
    assert case != "bf16" or eager == pytest.approx(alone["eager"]["fp32"]["losses"], rel=2e-2)


_NATIVE_FP16 = """
import copy, json, math, sys, torch, torch.distributed
from deepspeed.accelerator import get_accelerator
from dataclasses import replace
from bench.config.training import Adam, Precision
from bench.errors import LaunchFailed
from bench.worker import engines, load_choice
from bench.worker.workload import model as models
from tests.support.configs import a_model, a_spec

get_accelerator().is_fp16_supported = lambda: True
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
tokens = torch.randint(0, 512, (4, 16), generator=torch.Generator().manual_seed(1))
batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}

def native(engine_name, model, scale):
    engine = engines.make(engine_name)
    return load_choice("sharding", "zero1_native").Sharding(
        engine.wrap(model, threads=1, checkpointing=False),
        replace(
            a_spec(),
            optimizer="adamw",
            adam=Adam(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01),
            micro_batch=4,
            grad_accum=2,
            precision=Precision(name="fp16"),
            initial_scale=scale,
            growth_steps=2,
        ),
        torch.device("cpu"),
    )

def train(engine_name):
    torch.manual_seed(0)
    model = models.build(a_model(), attention="eager", dropout=False)
    plain, huge = copy.deepcopy(model), copy.deepcopy(model)
    plain(**batch).loss.backward()
    expected = {name: value.grad for name, value in plain.named_parameters()}

    trained, gradients = native(engine_name, model, 2.0**18), []
    trained.gradient_reader = lambda named: gradients.append({name: one.clone() for name, one in named})
    trained.watches_gradient = True
    steps = {"loss": [], "skipped": [], "scale": [], "norm": []}
    for _ in range(8):
        steps["loss"].append(trained.step([batch, batch]).item())
        steps["skipped"].append(trained.skipped_steps())
        steps["scale"].append(trained.loss_scale())
        steps["norm"].append(trained.gradient_norm)
    first = gradients[[math.isinf(norm) for norm in steps["norm"]].index(False)]
    assert first.keys() == expected.keys()
    worst = max(
        float((first[name] - one).norm() / one.norm()) for name, one in expected.items() if one.norm() > 1e-3
    )
    norm = float(torch.stack([one.norm() for one in expected.values()]).norm())
    found = {"steps": steps, "worst": worst, "expected_norm": norm, "proof": trained.proof()}

    with torch.no_grad():
        huge.get_input_embeddings().weight[:] = math.inf
    ending = native(engine_name, huge, 2.0)
    try:
        for _ in range(3):
            ending.step([batch, batch])
    except LaunchFailed as failure:
        found["at the end"] = [failure.status, failure.message]
    return found

print()
print(json.dumps({name: train(name) for name in sys.argv[1:]}))
"""

_ALONE = """
import json, os, sys, torch
from tests.support.configs import a_model
from bench.worker import engines
from bench.errors import LaunchFailed
from bench.worker.workload import model as models, precision

LEVEL = "ORTMODULE_MEMORY_OPT_LEVEL"

def run(engine_name, precise, level="", enabled=True, trained=a_model()):
    torch.manual_seed(0)
    model = models.build(trained, attention="eager", dropout=False)
    if level and enabled:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    os.environ.pop(LEVEL, None)
    if level:
        os.environ[LEVEL] = level
    precision.autocast(model, precise, "cpu")
    engine = engines.make(engine_name)
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
llama = a_model(architecture="llama", task="causal-lm")
cases = {
    "fp32": {"precise": "fp32"},
    "fp32 checkpointed": {"precise": "fp32", "level": "1"},
    "fp16": {"precise": "fp16"},
    "fp16 checkpointed": {"precise": "fp16", "level": "1"},
    "checkpointed in vain": {"precise": "fp32", "level": "0", "enabled": False},
    "bf16": {"precise": "bf16"},
    # Its rotary embedding's gradient is a Split, for which ONNX Runtime has no fp16 kernel on a CPU.
    "llama fp16": {"precise": "fp16", "trained": llama},
}
print()
print(json.dumps({
    engine: {name: run(engine, **case) for name, case in cases.items()} for engine in sys.argv[1:]
}))
"""
