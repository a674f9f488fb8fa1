"""What a chart of many models holds: ratios, statuses, the best PyTorch, published figures; nothing drawn."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench.errors import UserError
from bench.report.content.collection import ReportedComparison, read_comparison
from bench.report.content.kinds import DECODERS, ENCODER_DECODERS, ENCODERS, OWN, SPEECH, VISION, modality_of
from bench.report.content.models import choose_backends, choose_models, choose_one_of_each_model
from bench.report.content.quantities import ENERGY, MEMORY
from bench.report.figures import models
from bench.report.figures.breakdown_chart import breakdown_chart, describe_steps, step_bars
from bench.report.figures.model_chart import ModelChart, ModelLine, hardware_of, model_chart
from tests.support.factories import ENVIRONMENT, comparison, two_backends, with_environment, workload
from tests.support.many_models import ELEVEN, PARTS, Model, half_width, write, write_breakdowns
from tests.support.many_models import comparison as of_model
from tests.support.result_files import table_of_records

BY_NAME = {model.name: model for model in ELEVEN}


@cache
def of_name(name: str) -> ReportedComparison:
    return of_model(BY_NAME[name])


def eleven(*names: str) -> list[ReportedComparison]:
    return [of_name(name) for name in names or BY_NAME]


def line_of(chart: ModelChart, name: str) -> ModelLine:
    return next(line for line in chart.lines if line.name == name)


def made(stem: str, **changes: Any) -> ReportedComparison:
    """A comparison with a changed environment."""
    rows = table_of_records(with_environment(two_backends(), **changes))
    return ReportedComparison(stem=stem, rows=rows)


def test_a_bar_is_the_speed_up_with_its_interval() -> None:
    model = BY_NAME["t5-large"]
    bars = line_of(model_chart(eleven("t5-large", "gpt2")), "t5-large").bars
    assert [bar.backend for bar in bars] == ["ortmodule", "ortmodule_zero1"]
    for bar, speed in zip(bars, (1.33, 1.29), strict=True):
        assert bar.ratio
        assert bar.ratio.value == pytest.approx(speed)
        assert bar.ratio.low == pytest.approx(speed / math.exp(half_width(model)))
        assert bar.ratio.high == pytest.approx(speed * math.exp(half_width(model)))


def test_what_has_no_number_has_a_reason_in_words() -> None:
    chart = model_chart(eleven())
    for name, reasons in (
        ("bart-large", ["", "out of memory"]),
        ("beit-base", ["", "crashed"]),
        ("swinv2-base", ["diverged", "skipped"]),
        ("deberta-v2-xxlarge", ["unsupported", "unsupported"]),
    ):
        bars = line_of(chart, name).bars
        assert [bar.reason for bar in bars] == reasons, name
        assert [bar.ratio is None for bar in bars] == [bool(reason) for reason in reasons], name


def test_without_a_reference_no_ratio_is_shown() -> None:
    speeds: dict[str, float | str] = {"pytorch": "oom", "ortmodule": 1.2}
    chart = model_chart([of_model(Model(name="m", task="masked-lm", speed=speeds))])
    (bar,) = chart.lines[0].bars
    assert (bar.ratio, bar.reason) == (None, "pytorch: out of memory")


def test_a_backend_that_only_others_have_is_not_measured_here() -> None:
    lone = Model(name="m", task="masked-lm", speed={"pytorch": 1.0, "ortmodule": 1.2})
    chart = model_chart([of_model(lone), *eleven("gpt2")])
    assert [bar.reason for bar in line_of(chart, "m").bars] == ["", "not measured"]


def test_the_best_pytorch_is_the_fastest_row_and_1_where_that_is_the_reference() -> None:
    slow = Model(name="m", task="masked-lm", speed={"pytorch": 1.0, "pytorch_best": 0.9, "ortmodule": 1.2})
    chart = model_chart([of_model(slow), *eleven("gpt2")])
    assert (best := line_of(chart, "m").best)
    assert (best[0], best[1].value) == ("pytorch", 1.0)
    assert (best := line_of(chart, "gpt2").best)
    assert (best[0], round(best[1].value, 9)) == ("pytorch_best", 1.05)


def test_memory_is_the_ratio_of_peaks_and_has_no_interval() -> None:
    line = line_of(model_chart(eleven(), MEMORY), "gpt2")
    ratios = [bar.ratio for bar in line.bars]
    assert [found and found.value for found in ratios] == pytest.approx([1.04, 0.71])
    assert not any(found and found.low for found in ratios)
    assert line.published == []


def test_energy_is_drawn_where_it_is_known_and_refused_where_it_is_not() -> None:
    with pytest.raises(UserError, match="none of these comparisons knows its energy"):
        model_chart(eleven(), ENERGY)
    joules = {"pytorch": 300.0, "ortmodule": 240.0}
    rows = table_of_records(comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.6], [1.6]]}))
    rows["energy_j"] = rows["backend"].map(joules)
    (bar,) = model_chart([ReportedComparison(stem="m", rows=rows)], ENERGY).lines[0].bars
    assert bar.ratio
    assert bar.ratio.value == pytest.approx(0.8)


def test_models_are_grouped_by_modality_and_in_each_the_fastest_comes_first() -> None:
    chart = model_chart(eleven())
    assert [line.name for line in chart.lines] == [
        *("roberta-large", "distilbert-base", "bert-large", "deberta-v2-xxlarge"),
        "gpt2",
        *("t5-large", "bart-large"),
        *("beit-base", "vit-base", "swinv2-base"),
        "whisper-small",
    ]
    assert [line.name for line in model_chart(eleven(), MEMORY).lines] == [line.name for line in chart.lines]


@pytest.mark.parametrize(
    ("model", "task", "modality"),
    [
        ("llama-2-7b", "sequence-classification", DECODERS),
        ("gpt2", "causal-lm", DECODERS),
        ("bart-large", "sequence-classification", ENCODER_DECODERS),
        ("t5-large", "translation", ENCODER_DECODERS),
        ("bert-large", "masked-lm", ENCODERS),
        ("roberta-large", "question-answering", ENCODERS),
        ("swinv2-base", "image-classification", VISION),
        ("whisper-small", "speech-recognition", SPEECH),
        ("own-gpt", "own", OWN),
    ],
)
def test_the_modality_follows_from_task_and_name(model: str, task: str, modality: str) -> None:
    assert modality_of(model, task) == modality


def test_machines_have_panels_of_their_own() -> None:
    other = ENVIRONMENT["cpu"] | {"family": 8}
    chart = model_chart([made("a"), made("b", cpu=other)])
    assert [len(lines) for lines in chart.panels.values()] == [1, 1]
    assert ["family 7" in heading for heading in chart.panels] == [True, False]


def test_references_have_panels_of_their_own() -> None:
    records = comparison(
        {"pytorch_fused": [[2.0], [2.0]], "ortmodule": [[1.6], [1.6]]}, reference="pytorch_fused"
    )
    other = ReportedComparison(stem="b", rows=table_of_records(records))
    headings = model_chart([made("a"), other]).panels
    assert [heading.rpartition("; over ")[2] for heading in headings] == ["pytorch", "pytorch_fused"]


def test_two_workloads_of_a_model_are_told_apart_and_its_shrinking_is_named() -> None:
    def of(stem: str, *overrides: str, **changes: Any) -> ReportedComparison:
        seconds = {"pytorch": [[2.0]], "ortmodule": [[1.6]]}
        made = comparison(seconds, workload=workload(**changes), overrides=overrides)
        return ReportedComparison(stem=stem, rows=table_of_records(made))

    chart = model_chart([of("bert-tiny-cpux2"), of("bert-tiny-cpux2-seq_len=64", seq_len=64)])
    assert {line.label for line in chart.lines} == {"bert-tiny, length 128", "bert-tiny, length 64"}
    chart = model_chart([of("bert-tiny-cpux2"), of("b", "experiment=stacks")])
    assert {line.label for line in chart.lines} == {"bert-tiny", "bert-tiny, experiment=stacks"}
    chart = model_chart([of("a"), of("b", size="mini")])
    assert {line.label for line in chart.lines} == {"bert-tiny", "bert-tiny, mini"}
    chart = model_chart([of("a"), of("b", model="gpt2", precision="bf16")])
    assert {line.label for line in chart.lines} == {"bert-tiny, fp32", "gpt2, bf16"}


def test_a_model_with_fewer_layers_says_so() -> None:
    one = of_model(Model(name="bert-large", task="masked-lm", size="layers:6", speed={"pytorch": 1.0}))
    unknown = one.rows.assign(layers=None, published_layers=None)
    assert ReportedComparison(stem="x", rows=unknown).label == "bert-large, layers:6"
    rows = one.rows.assign(layers=6, published_layers=24)
    assert ReportedComparison(stem="x", rows=rows).label == "bert-large, 6 of 24 layers"


def test_published_figures_are_those_of_the_model_by_the_same_rule_of_batches() -> None:
    chart = model_chart(eleven())
    roberta = {
        (mark.backend, hardware_of(mark)): mark.ratio for mark in line_of(chart, "roberta-large").published
    }
    assert roberta["ortmodule_zero1", "8x V100-32GB (Azure ND40rs_v2), fp16"] == pytest.approx(
        392.76 / 289.97
    )
    assert roberta["ortmodule", "1x A100, fp16"] == pytest.approx(67.7 / 57.3)
    assert line_of(chart, "vit-base").published == []  # published at each side's largest batch


def test_what_is_no_result_is_left_out_by_name() -> None:
    loose = ReportedComparison(stem="loose", rows=of_name("gpt2").rows.assign(allocator="system"))
    parity = Model(name="m", task="masked-lm", speed={"pytorch": "untimed", "ortmodule": "unsupported"})
    chart = model_chart([loose, of_model(parity), *eleven("t5-large")])
    assert [line.name for line in chart.lines] == ["t5-large"]
    assert [sentence.split(" is left out")[0] for sentence in chart.left_out] == ["loose", "m-cpux2"]
    with pytest.raises(UserError, match="no comparison to show"):
        model_chart([loose])


def test_a_wrong_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        UserError, match="no comparison has the backend x; choose of ortmodule, ortmodule_zero1"
    ):
        choose_backends(eleven("gpt2"), ["x"])
    with pytest.raises(UserError, match="pytorch is the reference"):
        choose_backends(eleven("gpt2"), ["pytorch"])
    with pytest.raises(UserError, match="no comparison is of the model x; choose of gpt2, t5-large"):
        choose_models(eleven("gpt2", "t5-large"), ["x"])


def test_without_the_usual_backends_all_are_shown() -> None:
    modern = Model(name="m", task="masked-lm", speed={"pytorch": 1.0, "compile": 1.2, "pytorch_zero1": 0.9})
    assert choose_backends([of_model(modern)], []) == ["compile", "pytorch_zero1"]


def test_of_several_comparisons_of_a_workload_one_stands_for_all() -> None:
    rows = of_name("gpt2").rows
    few = rows[rows["backend"] != "ortmodule_zero1"]
    later = rows.assign(started_at="2026-11-30T00:00:00Z")
    one = later[later["launch"] == 1]
    untimed = one["backend"] == "ortmodule_zero1"
    one = one.assign(launch=one["launch"].mask(untimed, 0), round=one["round"].mask(untimed))
    tables = {
        "b": few.assign(overrides="[]"),
        "one-launch": one.assign(overrides="[]"),
        "short": rows.assign(overrides='["seed=1", "micro_batch=4"]'),
        "a-long-name": rows.assign(overrides='["seed=1"]'),
        "another-long-name": later.assign(overrides='["seed=2"]'),
        "c-measured-with-it": later.assign(overrides='["seed=2"]'),
    }
    given = [ReportedComparison(stem=stem, rows=mine) for stem, mine in tables.items()]
    assert [one.stem for one in choose_one_of_each_model(given)] == ["another-long-name"]


def test_the_caption_names_machine_workload_and_interval() -> None:
    caption = models.caption(model_chart(eleven()))
    for words in (
        "Whiskers: 95 % interval over launches.",
        "Machine: AMD EPYC, 2 cores, 2 ranks, as installed.",
        "Workload: batch 8 × 2, length 64, fp32; task is each model's own; 3 launches.",
        "the fastest PyTorch of the same comparison (pytorch_best)",
        "published for the whole model on other hardware (8x V100-32GB (Azure ND40rs_v2), fp16; ",
    ):
        assert words in caption
    changes = {"precision": "bf16", "seq_len": 8, "micro_batch": 1}
    unlike = Model(name="m", task="a", speed={"pytorch": 1.0, "ortmodule": 1.2}, changes=changes)
    caption = models.caption(model_chart([*eleven(), of_model(unlike)]))
    assert "Workload: task, batch, length and precision are each model's own; 3 launches." in caption
    lone = table_of_records(comparison({"pytorch": [[2.0, 2.1]], "ortmodule": [[1.6, 1.5]]}))
    caption = models.caption(model_chart([ReportedComparison(stem="x", rows=lone)]))
    assert "Single launch: the variation between launches is not in the interval" in caption


def test_the_text_alternative_has_every_number_and_reason() -> None:
    words = models.describe_models(model_chart(eleven()))
    assert "bert-large: ortmodule 1.064× [1.025, 1.104]" in words
    assert "ortmodule_zero1 out of memory (made up: it is oom)" in words
    assert "best PyTorch (pytorch_best) 1.050×" in words
    assert "published ortmodule_zero1 1.73× on 8x V100-32GB (Azure ND40rs_v2), fp16" in words


def test_a_breakdown_is_over_the_reference_s_timed_step(tmp_path: Path) -> None:
    models = (BY_NAME["gpt2"], BY_NAME["bart-large"])
    paths = write(tmp_path, models)
    write_breakdowns(tmp_path, models)
    chart = breakdown_chart([*map(read_comparison, paths), *eleven("t5-large")])
    assert chart.left_out == ["t5-large-cpux2 is left out: its reference was not profiled and timed"]
    bars = {bar.backend: bar for bar in step_bars(chart, line_of(chart, "gpt2"))}
    assert list(bars) == ["pytorch", "pytorch_best", "ortmodule", "ortmodule_zero1"]
    for name, speed in (("pytorch", 1.0), ("pytorch_best", 1.05), ("ortmodule", 0.8)):
        assert bars[name].timed == pytest.approx(1 / speed)
        assert bars[name].parts["optimizer"] == pytest.approx(PARTS["optimizer"] / speed, rel=1e-5)
        assert bars[name].parts["not in the profile"] == pytest.approx(0.02 / speed, rel=1e-4)
    failed = step_bars(chart, line_of(chart, "bart-large"))
    assert [bar.backend for bar in failed] == ["pytorch", "pytorch_best", "ortmodule"]
    with pytest.raises(UserError, match=r"measure\.explain=true"):
        breakdown_chart(eleven("t5-large"))


def test_a_profile_too_far_from_the_timed_step_has_no_bar_and_the_text_says_so(tmp_path: Path) -> None:
    models = (BY_NAME["gpt2"],)
    paths = write(tmp_path, models)
    write_breakdowns(tmp_path, models, profiled={"ortmodule": 1.5})
    chart = breakdown_chart([*map(read_comparison, paths)])
    bars = {bar.backend: bar for bar in step_bars(chart, line_of(chart, "gpt2"))}
    assert bars["ortmodule"].timed == pytest.approx(1 / 0.8)
    assert [name for name, bar in bars.items() if not bar.parts] == ["ortmodule"]
    words = describe_steps(chart)
    step = "of the reference's step"
    assert f"gpt2, pytorch: 1.00× {step}; parts, over the reference's step: matrix products 60 %," in words
    assert f"gpt2, ortmodule: 1.25× {step}; profile too far from the timed step." in words
