"""Engines, optimizers, shardings and stacks beside those of the three backends: each trains like PyTorch."""

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bench.config.backend import Backend
from bench.config.schema import Config
from bench.errors import LaunchFailed
from bench.launch.messages import (
    Build,
    ExpectedTensor,
    ExpectedTensorsWritten,
    TakeFirstStep,
    TrainForParity,
    UseBatches,
    WriteExpectedTensors,
)
from bench.measure.comparison import Comparison
from bench.measure.plan.plans import PARITY
from bench.measure.stages.judging import judge_tensors
from bench.setup import stacks
from tests.support.configs import a_config, a_model
from tests.support.cores import two_cores

pytestmark = [pytest.mark.usefixtures("forked"), two_cores]
todays = pytest.mark.skipif(stacks.own() != "modern", reason="about today's torch")
pinned = pytest.mark.skipif(stacks.own() != "ort", reason="about the pinned torch")
both = pytest.mark.skipif(
    stacks.installed("modern") is None, reason="the modern stack is not set up: make setup STACK=modern"
)

PYTORCH = Backend(engine="eager", optimizer="adamw", sharding="ddp")
CHOICES = {
    "forloop": replace(PYTORCH, optimizer="adamw_forloop"),
    "foreach_sdpa": replace(PYTORCH, optimizer="adamw_foreach", attention="sdpa"),
    "zero_redundancy": replace(PYTORCH, sharding="zero_redundancy"),
    "zero2": replace(PYTORCH, sharding="zero2"),
    "zero3": replace(PYTORCH, sharding="zero3"),
    "zero2_offload": replace(PYTORCH, optimizer="deepspeed_cpu_adam", sharding="zero2_offload"),
    "zero3_offload": replace(PYTORCH, optimizer="deepspeed_cpu_adam", sharding="zero3_offload"),
}
TUNED = replace(PYTORCH, engine="ortmodule", engine_options={"compute_optimizer": False})
TODAYS = {  # of the pinned stack: diverges; tests/real/test_precision.py; unsupported, see below
    "compile": replace(PYTORCH, engine="compile"),
    "zero1": replace(PYTORCH, sharding="zero1"),
    "fsdp2": replace(PYTORCH, sharding="fsdp2"),
}
ELSEWHERE = {"pytorch@modern": replace(PYTORCH, stack="modern")}
IMPLEMENTATIONS = {  # on a CPU
    "adamw": "for-loop",
    "adamw_forloop": "for-loop",
    "adamw_foreach": "foreach",
    "deepspeed_cpu_adam": None,
}
STEPS = 4


@dataclass
class Trained:
    """What two ranks of a backend answered."""

    proof: dict[str, Any]
    state_bytes: int
    losses: list[float]
    norms: list[float]
    differences: dict[str, float]
    expected: dict[str, ExpectedTensor]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    backends = (
        {"pytorch": PYTORCH, "tuned": TUNED}
        | CHOICES
        | TODAYS
        | (ELSEWHERE if stacks.installed("modern") else {})
    )
    model = a_model()
    model.config["num_hidden_layers"] = 1  # compiling takes long enough
    model.config["vocab_size"] = 511  # and so an odd number of weights, which not everything takes
    made = a_config(tmp_path_factory.mktemp("choices"), model=model)
    return replace(made, backends=backends, adam=replace(made.adam, lr=1e-3, weight_decay=0.01))


@pytest.fixture(scope="module")
def comparison(config: Config) -> Iterator[Comparison]:
    made = Comparison(config, "m-cpux2")
    yield made
    made.shared.output.initial_state.unlink(missing_ok=True)
    shutil.rmtree(made.shared.output.expected_tensors, ignore_errors=True)


@pytest.fixture(scope="module")
def reference(comparison: Comparison) -> Trained:
    return trained(comparison, "pytorch")


def trained(comparison: Comparison, name: str) -> Trained:
    """`STEPS` steps, each of two micro-batches, dropout off, and one more."""
    first_batches = UseBatches(numbers=[[*range(2 * STEPS)]])
    written = [ExpectedTensorsWritten(expected={})]
    with comparison.shared.starter.start(name, PARITY) as group:
        group.connect()
        group.request(Build())
        if name == "pytorch":
            group.request(first_batches)
            written = group.request(WriteExpectedTensors(steps=STEPS))
            assert {answer.absent for answer in written} == {""}
        group.request(first_batches)
        answers = group.request(TrainForParity(steps=STEPS, compared=True))
        first = group.request(TakeFirstStep())
        group.end()
    return Trained(
        proof=first[0].proof,
        state_bytes=sum(answer.optimizer_state_bytes for answer in first),
        losses=[sum(losses) / len(losses) for losses in zip(*(one.losses for one in answers), strict=True)],
        norms=answers[0].gradient_norms,
        differences=answers[0].differences,
        expected=written[0].expected,
    )


@pytest.mark.exhaustive
@pytest.mark.ort
def test_onnx_runtime_with_another_option_trains_like_pytorch_and_says_so(
    comparison: Comparison, reference: Trained
) -> None:
    found = trained(comparison, "tuned")
    check("tuned", found, reference, TUNED)
    assert found.proof["engine"]["options"]["compute_optimizer"] == 0


@pytest.mark.parametrize(
    "name",
    [
        *CHOICES,
        *(pytest.param(name, marks=todays) for name in TODAYS),
        *(pytest.param(name, marks=[pytest.mark.exhaustive, pinned, both]) for name in ELSEWHERE),
    ],
)
def test_it_trains_like_pytorch(
    name: str, config: Config, comparison: Comparison, reference: Trained
) -> None:
    check(name, trained(comparison, name), reference, config.backends[name])


def test_torch_compile_is_given_the_mode() -> None:
    """What it then does is torch's, and judged by the parity of each comparison."""
    import torch

    from bench.worker import engines

    class Module(torch.nn.Linear):
        def compile(self, **given: Any) -> None:
            self.given = given

    for options, mode in (({"mode": "max-autotune"}, "max-autotune"), ({}, None)):
        module = Module(1, 1)
        engines.make("compile", options).wrap(module, threads=1, checkpointing=False)
        assert module.given == {"dynamic": False, "mode": mode}


def check(name: str, found: Trained, reference: Trained, backend: Backend) -> None:
    largest = max(abs(a / b - 1) for a, b in zip(found.losses, reference.losses, strict=True))
    print(f"{name}: losses within {largest:.1e}; {found.proof}")
    assert found.losses == pytest.approx(reference.losses, rel=1e-4)
    worst = judge_tensors(found.differences, reference.expected, "fp32")[0]
    assert found.differences.keys() == reference.differences.keys()
    print(f"    worst tensor: {worst}")
    assert worst.share() < 0.2, "a multiple of rounding that leaves room"
    assert found.norms == pytest.approx(reference.norms, rel=1e-3)
    assert reference.losses[-1] < reference.losses[0] - 0.05, "or there would be nothing to tell apart"
    assert found.proof["optimizer"]["implementation"] == IMPLEMENTATIONS[backend.optimizer]
    if backend.engine == "compile":
        assert found.proof["engine"]["graphs"] >= 1
        assert found.proof["engine"]["compile_seconds"] > 0.1
        assert found.proof["engine"]["mode"] == "default"
    if backend.sharding == "ddp":
        assert found.state_bytes == pytest.approx(reference.state_bytes, rel=0.01)
    else:
        assert found.state_bytes == pytest.approx(reference.state_bytes / 2, rel=0.02), "each state once"


@pytest.mark.exhaustive
def test_an_odd_number_of_weights_in_fewer_tensors_than_ranks_trains_like_pytorch(tmp_path: Path) -> None:
    # GPT-2's classifier alone is trained: one tensor of 3 x 3 weights.
    sizes = {"vocab_size": 31, "n_embd": 3, "n_layer": 1, "n_head": 1, "n_positions": 32, "num_labels": 3}
    sizes["pad_token_id"] = 0
    model = a_model(architecture="gpt2", task="sequence-classification", config=sizes, trained="head")
    names = ["zero1", "zero_redundancy", "zero3_offload", *(["fsdp2"] if stacks.own() == "modern" else [])]
    made = a_config(tmp_path, model=model)
    made = replace(made, backends={"pytorch": PYTORCH} | {name: (CHOICES | TODAYS)[name] for name in names})
    single = Comparison(replace(made, adam=replace(made.adam, lr=0.1)), "m-cpux2")
    reference = trained(single, "pytorch")
    assert reference.losses[-1] < reference.losses[0] - 0.005, "or there would be nothing to tell apart"
    for name in names:
        assert trained(single, name).losses == pytest.approx(reference.losses, rel=1e-4), name


@pinned
def test_fsdp2_of_the_pinned_torch_is_unsupported_on_a_cpu(tmp_path: Path) -> None:
    made = replace(a_config(tmp_path), backends={"pytorch": replace(PYTORCH, sharding="fsdp2")})
    with Comparison(made, "m-cpux2").shared.starter.start("pytorch", PARITY) as group:
        group.connect()
        with pytest.raises(LaunchFailed, match=r"fully_shard of torch 2\.6.* needs a CUDA device") as caught:
            group.request(Build())
    assert caught.value.status == "unsupported"


def test_fsdp2_shards_the_members_of_the_outermost_lists_alone() -> None:
    """As in T5, whose layers hold lists of their parts: these cannot be sharded once the layer is."""
    import torch

    from bench.worker.sharding import fsdp2

    layer, model = torch.nn.Module(), torch.nn.Module()
    layer.parts = torch.nn.ModuleList([torch.nn.Linear(1, 1)])
    model.encoder = torch.nn.Module()
    model.encoder.layers = torch.nn.ModuleList([layer, torch.nn.Linear(1, 1)])
    assert list(fsdp2._layers(model)) == list(model.encoder.layers)


@pytest.mark.exhaustive
def test_zero3_goes_on_when_all_weights_are_gathered_not_when_the_last_one_is(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        ranks = [pool.submit(gathered, rank, tmp_path / "store") for rank in range(2)]
        assert [rank.result() for rank in ranks] == [[1.0, 1.0]] * 2


def gathered(rank: int, store: Path) -> list[float]:
    """What a rank finds at the end of each rank's part of a large weight, gathered before a small one."""
    os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK=str(rank))
    import deepspeed
    import torch
    import torch.distributed

    from bench.worker import load_choice

    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    load_choice("sharding", "zero3")
    weights = [torch.nn.Parameter(torch.ones(size)) for size in (1 << 23, 2)]
    deepspeed.zero.Init(
        module=torch.nn.ParameterList(weights),
        config_dict_or_path={"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}},
    )
    weights[0].all_gather(weights)
    found = [weights[0].data[end].item() for end in ((1 << 22) - 1, -1)]
    torch.distributed.barrier()
    return found
