"""`make scale`: what it predicts and checks, what its page says and draws, what it refuses."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from matplotlib import rc_context

from bench.config.compose import compose
from bench.config.schema import Config
from bench.report.figures import style
from bench.report.render.markdown import render_markdown
from bench.studies.scale import __main__ as command
from bench.studies.scale import facts as facts_module
from bench.studies.scale import topology
from bench.studies.scale.check import CheckedBytes, counted_bytes
from bench.studies.scale.figure import draw_scaling
from bench.studies.scale.model_facts import ModelFacts
from bench.studies.scale.page import LIMITS, bytes_in_words, scale_page
from bench.studies.scale.predict import Prediction, predict
from tests.support.reports import svg_texts

ROOT = Path(__file__).resolve().parents[3]
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
        *((number * EACH, number / LAYERS) for number in range(1, LAYERS + 1)),
        (LAYERS * EACH + BESIDE, 1.0),
    ),
)

CHECKED = [
    CheckedBytes(model="bert-mini", backend="pytorch", sharding="ddp", ranks=2, counted=1000, predicted=1000),
    CheckedBytes(
        model="bert-mini", backend="pytorch_zero1", sharding="zero1", ranks=4, counted=1500, predicted=1500
    ),
]


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of its own, and no process that counts."""

    def made_up(overrides: Sequence[str]) -> tuple[Config, ModelFacts]:
        return compose([*overrides, "device=cpu", "backend=[pytorch]"]), FACTS

    monkeypatch.setattr(facts_module, "facts_of", made_up)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")
    monkeypatch.chdir(tmp_path)


def predicted(*overrides: str, name: str = "dgx-a100", facts: ModelFacts = FACTS) -> Prediction:
    settings = ["model=bert-large", "device=cpu", "backend=[pytorch]", "precision=bf16", *overrides]
    return predict(compose(settings), facts, topology.load(name))


def test_a_model_and_a_topology_give_an_answer_a_page_and_a_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["model=bert-large", "topology=dgx-a100"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "predicted, not measured: Under DDP a rank keeps" in said
    assert "none were counted" in said
    page = (tmp_path / "rendered" / "scale.md").read_text(encoding="utf-8")
    assert "bf16" in page, "the default precision of that device"
    assert "- predicted by `make scale MODEL=bert-large TOPOLOGY=dgx-a100`" in page
    assert "](scale.svg)" in page
    assert "predicted efficiency" in " ".join(svg_texts(tmp_path / "rendered" / "scale.svg"))


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("model.module=docs/examples/own_gpt.py:OwnGPT", "own-gpt"),
        (f"model.pretrained={ROOT}/conf/sweeps/architectures/phi-3", "phi-3"),
    ],
)
def test_a_model_of_one_s_own_is_a_model(tmp_path: Path, setting: str, name: str) -> None:
    assert command.main([setting, "topology=dgx-a100", "--out", "here"]) == 0
    page = (tmp_path / "here" / "scale.md").read_text(encoding="utf-8")
    assert f"- {name}, " in page
    assert f'make scale TOPOLOGY=dgx-a100 ARGS="{setting}"' in page


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (["model=bert-large"], "needs a model and one topology"),
        (["model=bert-large", "topology=dgx-b9"], "topology dgx-b9 is not known; choose one of: dgx-a100"),
        (["model=bert-large", "topology=v100x8", "precision=fp32"], "is known in fp16 only; set precision="),
        (["model=bert-large", "topology=dgx-a100", "model.size=mini"], "predicted are models as published"),
    ],
)
def test_what_cannot_be_predicted_is_refused_in_a_sentence(
    settings: list[str], reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert command.main(settings) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "rendered").exists()


# What is predicted


def test_one_rank_sends_nothing_and_every_figure_lies_within_its_range() -> None:
    prediction = predicted()
    for line in prediction.lines.values():
        assert (line[0].ranks, line[0].exposed, line[0].efficiency.value) == (1, 0, 1)
        for point in line:
            assert point.efficiency.value == pytest.approx(
                point.samples_per_s.value / point.ranks / line[0].samples_per_s.value
            )
            assert point.samples_per_s.low < point.samples_per_s.value < point.samples_per_s.high
    beside = [point.over_base.value for point in prediction.lines["ddp"]]
    assert beside == [1.0] * len(beside)


def test_accumulation_makes_ranks_more_efficient_and_a_slower_network_costs_those_that_send_more() -> None:
    once, often = predicted(), predicted("grad_accum=8")
    at_64 = 6  # the place of 64 ranks
    assert often.lines["ddp"][at_64].efficiency.value > once.lines["ddp"][at_64].efficiency.value
    near, far = (one.lines["zero1"][at_64].over_base.value for one in (often, once))
    assert far < near < 1
    slow = predicted("precision=fp16", name="v100x8")
    assert slow.lines["ddp"][at_64].efficiency.value < once.lines["ddp"][at_64].efficiency.value
    assert all(point.over_base.high < 1 for point in slow.lines["zero1"][4:])


# What is checked


def test_counted_bytes_are_those_of_a_ring_without_flags_and_of_one_launch() -> None:
    rows = [
        {"backend": "a", "name": "all_reduce", "whole_bytes": 4000, "element_bytes": 4, "calls": 2},
        {"backend": "a", "name": "all_gather", "whole_bytes": 1000, "element_bytes": 4, "calls": 1},
        {"backend": "a", "name": "all_reduce", "whole_bytes": 64, "element_bytes": 4, "calls": 9},
        {"backend": "a", "name": "all_reduce", "whole_bytes": 9000, "element_bytes": 4, "calls": 0},
        {"backend": "b", "name": "all_reduce", "whole_bytes": 9000, "element_bytes": 4, "calls": 1},
    ]
    table = pd.DataFrame([*rows, rows[0]])
    assert counted_bytes(table, "a", 4) == (2 * 2 * 4000 + 1000) * 3 / 4
    assert counted_bytes(table, "c", 4) == 0


def test_bytes_that_are_not_as_counted_are_named() -> None:
    assert bytes_in_words(CHECKED) == (
        "bytes that a rank sends: as counted at 2 of 2 points (DDP and ZeRO-1 on 2 and 4 ranks)"
    )
    wrong = bytes_in_words([CHECKED[0], replace(CHECKED[1], predicted=1000)])
    assert "as counted at 1 of 2 points" in wrong
    assert wrong.endswith("bert-mini under pytorch_zero1 on 4 ranks: predicted 1,000, counted 1,500")


# The page and its figure


def test_the_page_says_what_the_prediction_holds_and_what_it_does_not_say() -> None:
    prediction = predicted()
    page = render_markdown(scale_page(prediction, CHECKED, "make scale", Path("scale.svg")))
    ddp, zero1 = (prediction.lines[one][6] for one in ("ddp", "zero1"))
    (row,) = (line for line in page.splitlines() if line.startswith("| 64 | ZeRO-1 |"))
    assert f"| {zero1.over_base.value:.2f}\N{MULTIPLICATION SIGN} [" in row
    assert row.endswith(" | yes |")
    assert f"{100 * ddp.efficiency.value:.0f} % [" in page
    assert "however many ranks there are (weak scaling)" in page
    assert "| 128 |" not in page, "the figure has it"
    large = replace(FACTS, parameters=10**11)
    assert " | no |" in render_markdown(
        scale_page(predicted(facts=large), [], "make scale", Path("scale.svg"))
    )


def test_what_is_drawn_is_dashed_and_hollow_with_a_range_for_each_sharding() -> None:
    with rc_context(style.RC):
        figure = draw_scaling(predicted(facts=replace(FACTS, parameters=10**11)))
    drawn = {str(one.get_gid()) for axes in figure.axes for one in axes.get_children() if one.get_gid()}
    names = {"DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "FSDP2"}
    for kind in ("line", "range", "points"):
        assert {name for name in drawn if name.startswith(f"{kind}-")} == {f"{kind}-{name}" for name in names}
    assert "does-not-fit-DDP" in drawn
    lines = {one.get_gid(): one for axes in figure.axes for one in axes.lines}
    looks = set()
    for name in names:
        assert lines[f"line-{name}"].is_dashed()
        assert lines[f"points-{name}"].get_markerfacecolor() == "none"
        looks.add((lines[f"points-{name}"].get_marker(), lines[f"line-{name}"].get_color()))
    assert len(looks) == len(names), "one look for each sharding"


def test_as_many_published_pairs_have_zero1_faster_as_the_page_says() -> None:
    known = pd.read_csv(ROOT / "docs/published.csv", dtype=str, keep_default_na=False)
    known = known[
        known["hardware"].str.startswith("8x V100")
        & (known["precision"] == "fp16")
        & (known["samples_per_s"] != "")
        & (known["flag"] != "typo-suspected")
    ]
    rates = known.pivot_table("samples_per_s", ["source_ref", "model"], "backend", aggfunc="first")
    rates = rates.astype(float)
    ratios = pd.concat([rates[f"{one}_zero1"] / rates[one] for one in ("pytorch", "ortmodule")]).dropna()
    assert f"faster than DDP in {(ratios > 1).sum()} of {len(ratios)} cases" in " ".join(LIMITS)
