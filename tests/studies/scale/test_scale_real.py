"""Collectives of steps for real: what each sharding sends, what shapes say, and the committed page."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pandas as pd
import pytest

from bench.config.backend import Backend
from bench.config.schema import Config
from bench.errors import UserError
from bench.launch.spec import WorkerSpec
from bench.measure.comparison import Comparison
from bench.setup import stacks
from bench.studies.collectives.table import TABLE as COLLECTIVES
from bench.studies.scale import __main__ as command
from bench.studies.scale import facts as counting_process
from bench.studies.scale.check import counted_bytes
from bench.studies.scale.facts import facts_of
from bench.studies.scale.traffic import sent_in_a_step, traffic_of
from tests.studies.scale.shapes import facts_of_shapes
from tests.support.configs import SMALL, a_config, a_model

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("forked")]

WORDS = 4096
"""Of the vocabulary, so that stage 3 does not leave every tensor whole."""

COUNTED = {"ddp": 2.0, "zero_redundancy": 3.0, "zero1": 3.0, "zero2": 5.0, "zero3": 3.0}
"""Elements per parameter that libraries send with two micro-batches; `bench.studies.scale.traffic` says why
they are not the textbook's."""


@pytest.mark.once  # the rules are those of the pinned DeepSpeed and torch
def test_every_sharding_sends_what_its_rule_says(tmp_path: Path) -> None:
    """DDP by hooks of C++, DeepSpeed from Python: all of it passes torch's dispatcher, where it is
    counted."""
    config, table = counted_in(tmp_path, [*COUNTED])
    tensors = trained_tensors()
    facts = facts_of_shapes(tensors)
    for sharding, expected in COUNTED.items():
        sent = counted_bytes(table, sharding, 2)
        rules = traffic_of(sharding, facts, ranks=2)
        assert sent == sent_in_a_step(rules, 2, config.grad_accum, least_bytes=64), sharding
        volume = sent * 2 / 4 / sum(tensors)  # half of it is another rank's, an element has 4 bytes
        assert volume == pytest.approx(expected, abs=0.01)


@pytest.mark.skipif(stacks.own() != "modern", reason="about today's torch")
def test_fsdp2_sends_what_its_rule_says(tmp_path: Path) -> None:
    config, table = counted_in(tmp_path, ("ddp", "fsdp2"))
    facts = facts_of_shapes(trained_tensors(), layers=2, layer_parameters=2 * sum(trained_layer()))
    rules = traffic_of("fsdp2", facts, ranks=2)
    sent = counted_bytes(table, "fsdp2", 2)
    assert sent == sent_in_a_step(rules, 2, config.grad_accum, least_bytes=64)
    mine = table[(table["backend"] == "fsdp2") & (table["whole_bytes"] > 64)]
    assert set(mine["name"]) == {"all_gather", "reduce_scatter"}


def counted_in(folder: Path, shardings: Sequence[str]) -> tuple[Config, pd.DataFrame]:
    """A comparison of these shardings on two ranks, named after them, and their collectives."""
    model = a_model(config=a_model().config | {"vocab_size": WORDS}, parameters=SMALL + (WORDS - 512) * 65)
    config = a_config(folder, model=model, launches=0, collectives="count")
    backends = {one: Backend(engine="eager", optimizer="adamw", sharding=one) for one in shardings}
    config = replace(config, backends=backends, reference="ddp")
    comparison = Comparison(config, "m-cpux2")
    comparison.measure()
    return config, COLLECTIVES.read(COLLECTIVES.path_of(comparison.shared.output.csv))


def trained_layer() -> list[int]:
    """Tensors of a layer of `a_config`'s model, as its architecture has them."""
    hidden, inner = 64, 128
    layer = [hidden * hidden, hidden] * 4 + [hidden] * 2 + [inner * hidden, inner, hidden * inner, hidden]
    return layer + [hidden] * 2


def trained_tensors() -> list[int]:
    """Of the whole model."""
    hidden, positions = 64, 64
    embeddings = [WORDS * hidden, positions * hidden, 2 * hidden, hidden, hidden]
    head = [WORDS, hidden * hidden, hidden, hidden, hidden]
    return [*embeddings, *trained_layer() * 2, *head]


LLAMA = ("model=llama-2-7b", "model.lora=null", "micro_batch=1", "seq_len=64")


@pytest.mark.once
def test_shapes_say_what_a_model_has_however_large_it_is() -> None:
    _, facts = facts_of(LLAMA)
    layer = 4 * 4096**2 + 3 * 4096 * 11_008 + 2 * 4096
    assert facts.layers == 32
    assert facts.layer_parameters == 32 * layer
    beside = facts.parameters - 32 * layer - 32_000 * 4096  # the last norm, and a score for each label
    assert beside % 4096 == 0
    assert 0 < beside < 20 * 4096
    assert sum(facts.tensors) == facts.trainable == facts.parameters
    assert facts.backward_flops == pytest.approx(2 * facts.forward_flops, rel=0.01)
    assert facts.forward_flops == pytest.approx(2 * 64 * 32 * layer, rel=0.05)
    assert facts.ready[-1][0] == facts.trainable


@pytest.fixture
def counted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes are counted in this process, which has torch; in one of their own by the test above."""
    from bench.studies.scale import counting

    def run(_: list[str], **given: Any) -> SimpleNamespace:
        counted = counting.find_facts(msgspec.json.decode(given["input"], type=WorkerSpec))
        return SimpleNamespace(returncode=0, stdout=msgspec.json.encode(counted))

    monkeypatch.setattr(counting_process, "subprocess", SimpleNamespace(run=run))


@pytest.mark.once
@pytest.mark.usefixtures("counted_here")
def test_shapes_say_what_a_setting_keeps_for_the_backward_pass() -> None:
    four = [*LLAMA, "model.size=layers:4"]
    _, facts = facts_of(four)
    layer = facts.layer_parameters // facts.layers
    _, longer = facts_of([*four, "micro_batch=2"])
    assert longer.activation_bytes == pytest.approx(2 * facts.activation_bytes, rel=0.02)
    _, cast = facts_of([*four, "precision=bf16"])
    # Half as much, and a copy of every weight in 16 bits, which autocast keeps for the backward pass.
    assert cast.activation_bytes == pytest.approx(facts.activation_bytes / 2 + 2 * 4 * layer, rel=0.05)
    _, kept = facts_of([*four, "checkpointing=true"])
    assert kept.activation_bytes < facts.activation_bytes / 2
    assert kept.backward_flops > 1.35 * facts.backward_flops, "the forward pass is computed again"


@pytest.mark.once
@pytest.mark.usefixtures("counted_here")
def test_the_committed_page_is_what_the_command_on_it_writes(tmp_path: Path) -> None:
    """With its check of every byte that was counted."""
    with pytest.raises(UserError, match="bert-huge"):
        facts_of(["model=bert-huge"])
    command.main(["model=bert-large", "topology=dgx-a100", "--out", str(tmp_path)])
    for path in ROOT.glob("reports/scale.*"):
        assert (tmp_path / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8")
    assert "as counted at 18 of 18 points" in (tmp_path / "scale.md").read_text(encoding="utf-8")
