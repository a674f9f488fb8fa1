"""`make scale`: what it writes, what it says, what it refuses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.analysis.scale import topology
from bench.analysis.scale.tables import PUBLISHED, SCALING
from bench.config.compose import compose
from bench.config.schema import Config
from bench.results.step_parts import ModelFacts, ReadyGradients
from bench.scale import __main__ as command
from bench.scale import facts as facts_module
from bench.scale import published
from bench.scale.predict import STRONG_RANKS, scaling_rows
from bench.scale.published import predict_ratio
from bench.scale.words import faster_at

ROOT = Path(__file__).resolve().parents[2]
LAYERS, EACH, BESIDE = 24, 12_000_000, 32_000_000

FACTS = ModelFacts(
    parameters=LAYERS * EACH + BESIDE,
    tensors=(BESIDE, *(EACH,) * LAYERS),
    layers=LAYERS,
    layer_parameters=LAYERS * EACH,
    forward_flops=10**12,
    backward_flops=2 * 10**12,
    activation_bytes=3 * 2**30,
    layer_activation_bytes=2 * 2**30,
    ready=(
        *(ReadyGradients(elements=number * EACH, share=number / LAYERS) for number in range(1, LAYERS + 1)),
        ReadyGradients(elements=LAYERS * EACH + BESIDE, share=1.0),
    ),
)


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of its own, and no process that counts."""

    def made_up(overrides: Sequence[str], **_: object) -> tuple[Config, ModelFacts]:
        return compose([*overrides, "device=cpu", "backend=[pytorch]"]), FACTS

    monkeypatch.setattr(facts_module, "facts_of", made_up)
    monkeypatch.setattr(published, "facts_of", made_up)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")
    monkeypatch.chdir(tmp_path)


def rows_of(overrides: Sequence[str] = ("precision=bf16",), name: str = "dgx-a100") -> list[dict[str, Any]]:
    config = compose(["model=bert-large", "device=cpu", "backend=[pytorch]", *overrides])
    return list(scaling_rows(config, FACTS, topology.load(name)))


def at(rows: list[dict[str, Any]], sharding: str, ranks: int, scaling: str = "weak") -> dict[str, Any]:
    (row,) = (
        row
        for row in rows
        if (row["sharding"], row["ranks"], row["scaling"], row["volume"])
        == (sharding, ranks, scaling, "counted")
    )
    return row


def test_a_model_and_a_topology_give_a_file_an_answer_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["model=bert-large", "topology=dgx-a100"]) == 0
    said = capsys.readouterr().out
    assert "measured: nothing on 8 × A100" in said.replace("\n", " ")
    assert "predicted:" in said
    table = SCALING.read(tmp_path / "results" / "predicted" / "scaling-bert-large-dgx-a100-bf16.csv")
    assert set(table["precision"]) == {"bf16"}, "the usual one of that device"
    assert set(table["scaling"]) == {"weak", "strong"}
    assert (table["predicted_step_s_low"] <= table["predicted_step_s"]).all()
    assert (table["predicted_step_s"] <= table["predicted_step_s_high"]).all()
    assert (tmp_path / "rendered" / "scale.md").exists()


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("model.module=docs/examples/own_gpt.py:OwnGPT", "own-gpt"),
        (f"model.pretrained={ROOT}/conf/sweeps/architectures/phi-3", "phi-3"),
        ("++model.module=docs/examples/own_convnet.py:ConvNet", "conv-net"),
    ],
)
def test_a_model_of_one_s_own_is_a_model(tmp_path: Path, setting: str, name: str) -> None:
    assert command.main([setting, "topology=dgx-a100"]) == 0
    table = SCALING.read(tmp_path / "results" / "predicted" / f"scaling-{name}-dgx-a100-bf16.csv")
    assert set(table["model"]) == {name}
    assert set(table["command"]) == {f'make scale TOPOLOGY=dgx-a100 ARGS="{setting}"'}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ([], "needs a model and one topology"),
        (["model=bert-large"], "needs a model and one topology"),
        (["model=bert-large", "topology=dgx-b9"], "topology dgx-b9 is not known; choose one of: dgx-a100"),
        (
            ["model=bert-large", "topology=v100x8", "precision=fp32"],
            "is known in fp16 only; set precision=fp16",
        ),
        (["model=bert-large", "topology=dgx-a100", "model.size=mini"], "predicted are models as published"),
        (["--check", "model=bert-large"], "--check takes no model=bert-large"),
    ],
)
def test_what_cannot_be_predicted_is_refused_in_a_sentence(
    settings: list[str], reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert command.main(settings) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_without_measurements_published_figures_are_compared_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--check"]) == 0
    assert "published ratios of ZeRO-1 to DDP: mean absolute error" in capsys.readouterr().out
    table = PUBLISHED.read(tmp_path / "results" / "predicted" / "published.csv")
    assert set(table["engine"]) == {"pytorch", "ortmodule"}
    assert "gpt2" not in set(table.loc[table["engine"] == "ortmodule", "model"]), "one figure is uncertain"
    errors = table["predicted_ratio"] / table["published_ratio"] - 1
    assert table["error"].to_list() == pytest.approx(errors.to_list(), abs=1e-4)


def test_one_rank_sends_nothing_and_samples_grow_with_the_ranks_or_do_not() -> None:
    rows = rows_of()
    for sharding in ("ddp", "zero1", "zero3", "fsdp2"):
        alone = at(rows, sharding, 1)
        assert alone["predicted_exposed_s"] == 0
        assert alone["predicted_efficiency"] == 1
        assert alone["predicted_samples_per_s"] == pytest.approx(8 / alone["predicted_step_s"])
    weak, strong = at(rows, "ddp", 64), at(rows, "ddp", 64, "strong")
    assert weak["predicted_samples_per_s"] == pytest.approx(64 * 8 / weak["predicted_step_s"])
    assert strong["predicted_samples_per_s"] == pytest.approx(8 * STRONG_RANKS / strong["predicted_step_s"])
    small = at(rows, "ddp", 1024, "strong")
    assert small["micro_batch"] == 8 * STRONG_RANKS / 1024
    assert small["predicted_memory_gib"] < at(rows, "ddp", 1024)["predicted_memory_gib"]


def test_accumulation_makes_a_step_longer_and_ranks_of_ddp_more_efficient() -> None:
    once, often = rows_of(), rows_of(["precision=bf16", "grad_accum=8"])
    assert at(often, "ddp", 64)["predicted_step_s"] > 4 * at(once, "ddp", 64)["predicted_step_s"]
    assert at(often, "ddp", 64)["predicted_efficiency"] > at(once, "ddp", 64)["predicted_efficiency"]


def test_a_slower_network_costs_those_that_send_more() -> None:
    fast, slow = rows_of(), rows_of(["precision=fp16"], "v100x8")
    assert at(slow, "ddp", 64)["predicted_efficiency"] < at(fast, "ddp", 64)["predicted_efficiency"]
    assert faster_at(slow, "zero1", "ddp") == []
    assert faster_at(slow, "ddp", "zero1") == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def test_a_published_ratio_follows_from_what_update_and_sending_cost() -> None:
    v100 = topology.load("v100x8")
    short, long = (predict_ratio(FACTS, v100, "pytorch", seconds).value for seconds in (0.2, 20.0))
    assert short > long > 1, "the longer a step computes, the less it matters"
    assert long == pytest.approx(1, abs=0.01)
    hidden = predict_ratio(FACTS, v100, "pytorch", 0.5).value
    exposed = predict_ratio(FACTS, v100, "ortmodule", 0.5).value
    assert np.isfinite([hidden, exposed]).all()
    assert exposed != hidden
