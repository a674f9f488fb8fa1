"""Advice: what is predicted, what is left out with which reason, what is measured, and what is said of it."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.advise import measured, words
from bench.advise.__main__ import main
from bench.advise.effects import ANYTHING, OTHER_MODEL, Bounds, Effects, find_effects
from bench.advise.predict import Candidate, changes_of, predict, select
from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.intervals import Speedup
from bench.config.compose import compose
from bench.config.schema import Config
from bench.results import csv_files
from bench.results.records import Record
from bench.sweeps.fit import Trial
from tests.support.factories import comparison, failed, workload

GIB = 2**30
NOTHING = Effects(speed={}, failed={})


def a_config(*overrides: str) -> Config:
    return compose(["experiment=advise", "device=cpu", "model=bert-mini", "micro_batch=8", *overrides])


def a_trial(parameters: int = 100_000_000, activations: float = 1.0 * GIB) -> Trial:
    runtime = 0.5 * GIB
    return Trial(
        layers=4,
        parameters=parameters,
        seconds=1.0,
        peak_bytes=runtime + 16 * parameters + activations,
        runtime_bytes=runtime,
    )


def predicted(
    name: str, limit: float, *, effects: Effects = NOTHING, activations: float = 1.0 * GIB
) -> Candidate:
    """With the trial's micro-batches in four parts."""
    return predict(
        a_config(),
        name,
        a_trial(activations=activations),
        trial_parts=4,
        effects=effects,
        limit_bytes=limit * GIB,
    )


# --- prediction -----------------------------------------------------------------------------------


def test_what_a_backend_changes_is_named_as_in_the_results() -> None:
    config = a_config()
    assert changes_of(config, "pytorch") == []
    assert changes_of(config, "pytorch_best_smallest") == [
        ("optimizer", "adafactor"),
        ("attention", "sdpa"),
        ("precision", "bf16"),
        ("checkpointing", "1"),
    ]
    every = [tuple(changes_of(config, name)) for name in config.backends]
    assert len({*every}) == len(every), "no two are the same"


def test_memory_is_weights_gradients_states_and_activations() -> None:
    """A trial of a quarter of the micro-batch has a quarter of its activations."""
    plain = predicted("pytorch", 100)
    whole = 0.5 * GIB + 16e8 + 4 * GIB
    assert plain.parts == 1
    assert (plain.memory.low, plain.memory.high) == pytest.approx((0.9 * whole, 1.1 * whole))
    stateless = predicted("pytorch_best_adafactor", 100)
    assert stateless.memory.high == pytest.approx(plain.memory.high - 1.1 * 8e8), (
        "no state, sdpa needs no more"
    )


def test_a_micro_batch_is_trained_in_as_few_parts_as_fit() -> None:
    assert [predicted("pytorch", limit).parts for limit in (6.5, 5, 3.5, 2.6)] == [1, 2, 4, 8]


def test_recomputed_activations_need_fewer_parts() -> None:
    limit = 4.5
    assert predicted("pytorch_best_checkpointing", limit).parts < predicted("pytorch", limit).parts


def test_speed_is_the_product_of_what_each_choice_did_here() -> None:
    effects = Effects(
        speed={("attention", "sdpa"): Bounds(1.0, 1.1), ("optimizer", "adamw_fused"): Bounds(1.1, 1.3)},
        failed={},
    )
    best = predicted("pytorch_best", 100, effects=effects)
    assert (best.speed.low, best.speed.high) == pytest.approx((0.88, 1.1 * 1.3 * 1.2))
    assert predicted("pytorch_best_bf16", 100, effects=effects).speed.low == 0, "of bf16 nothing is known"
    assert predicted("pytorch_best", 100).speed == Bounds(0.0, ANYTHING.high)


def test_parts_cost_what_as_many_did_here() -> None:
    effects = Effects(speed={("grad_accum", "4"): Bounds(0.6, 0.9)}, failed={})
    assert predicted("pytorch", 4, effects=effects).speed.low == pytest.approx(0.6)
    assert predicted("pytorch", 2.6, effects=effects).speed.low == pytest.approx(0.6**1.5), "eight parts"
    assert predicted("pytorch", 4).speed.low == 0, "not known"


# --- what is left open ----------------------------------------------------------------------------


def candidate(
    name: str, speed: tuple[float, float], memory: tuple[float, float] = (1, 2), **changes: str
) -> Candidate:
    return Candidate(
        backend=name,
        changes=[],
        parts=1,
        memory=Bounds(memory[0] * GIB, memory[1] * GIB),
        speed=Bounds(*speed),
        failed=changes.get("failed", ""),
    )


def test_what_cannot_be_the_best_is_left_out_with_the_reason() -> None:
    selection = select(
        [
            candidate("best", (1.5, 2.0)),
            candidate("as_good", (0.5, 1.6)),
            candidate("slow", (0.5, 1.4)),
            candidate("large", (3.0, 4.0), memory=(5, 6)),
            candidate("may_fit", (1.4, 1.6), memory=(3, 6)),
            candidate("wrong", (3.0, 4.0), failed="diverged on bert-mini"),
        ],
        4 * GIB,
    )
    assert [one.backend for one in selection.open] == ["best", "as_good", "may_fit"]
    assert {one.backend: reason for one, reason in selection.left_out} == {
        "slow": "at most 1.40 times as fast as plain PyTorch, where best is at least 1.50 times",
        "large": "it needs at least 5.0 GiB",
        "wrong": "it was diverged on bert-mini on this machine",
    }


def test_what_may_not_fit_leaves_nothing_out() -> None:
    """Else nothing would be left if it does not."""
    selection = select(
        [candidate("may_fit", (3.0, 4.0), memory=(3, 6)), candidate("slow", (0.5, 1.0))], 4 * GIB
    )
    assert [one.backend for one in selection.open] == ["may_fit", "slow"]


# --- what was measured before ---------------------------------------------------------------------


def with_bf16(ratio: float, **changes: Any) -> ComparisonResults:
    seconds = {"pytorch": 2.0, "pytorch_bf16": 2.0 / ratio}
    records = comparison({name: [[one], [one * 1.001], [one * 0.999]] for name, one in seconds.items()})
    made: list[Record] = [
        dataclasses.replace(
            one, workload=workload(precision="bf16" if one.backend == "pytorch_bf16" else "fp32"), **changes
        )
        for one in records
    ]
    return ComparisonResults(stem="methods", rows=csv_files.table_of_records(made))


def test_effects_are_those_of_this_machine_widened_for_another_model() -> None:
    here, there = with_bf16(1.5), with_bf16(3.0, threads_per_rank=2, cores_per_rank=2)
    effects = find_effects([here, with_bf16(1.7), there], here.hardware_key)
    bounds = effects.speed["precision", "bf16"]
    assert bounds.low == pytest.approx(1.5 * (1 - OTHER_MODEL), rel=0.01)
    assert bounds.high == pytest.approx(1.7 * (1 + OTHER_MODEL), rel=0.01)
    assert not find_effects([there], here.hardware_key).speed


def test_what_never_trained_here_is_named_with_its_end() -> None:
    records = [
        *comparison({"pytorch": [[2.0], [2.0]]}),
        failed("compile", "diverged", "loses a gradient", launch=0, engine="compile"),
    ]
    results = ComparisonResults(stem="methods", rows=csv_files.table_of_records(records))
    effects = find_effects([results], results.hardware_key)
    assert effects.failed == {("engine", "compile"): "diverged on bert-tiny"}
    assert predicted("compile_fused", 100, effects=effects).failed == "diverged on bert-tiny"


# --- what is measured and said --------------------------------------------------------------------


def outcome(
    name: str, samples: float | None, high: float | None = None, status: str = "ok"
) -> measured.Outcome:
    against = (
        None if high is None else Speedup(ratio=high - 0.05, low=high - 0.1, high=high, launches=4, rounds=16)
    )
    return measured.Outcome(
        candidate=candidate(name, (1.0, 2.0)),
        status=status,
        message="" if status == "ok" else "memory ran out",
        samples_per_s=samples,
        peak_gib=2.5,
        against_first=against,
        command=f"make bench {name}",
        csv=Path("a.csv"),
    )


def test_the_answer_says_how_sure_it_is() -> None:
    def said(*outcomes: measured.Outcome) -> str:
        return words.answer(outcomes, "bert-base", 3, "this CPU")

    first = outcome("a", 10.0)
    assert said(first, outcome("b", 9.0, high=0.95)).startswith(
        "bert-base trains fastest within 3 GiB with a: 10.00 samples/s, with a peak of 2.5 GiB, on this CPU; "
        "all others"
    )
    assert "b may be as fast" in said(first, outcome("b", 9.9, high=1.05))
    assert "nothing else was left" in said(first)
    assert (
        said(outcome("a", None, status="oom"))
        == "Nothing that was tried trains bert-base within 3 GiB on this CPU."
    )


def test_the_table_has_the_rank_the_command_and_what_was_left_out() -> None:
    selection = select([candidate("a", (1.0, 2.0)), candidate("large", (1.0, 2.0), memory=(9, 10))], 4 * GIB)
    lines = words.table(
        [outcome("a", 10.0), outcome("b", 9.0, high=0.95), outcome("c", None, status="oom")], selection
    ).splitlines()
    assert lines[0].startswith("1. a: 10.00 samples/s, peak 2.50 GiB (predicted 1.0 to 2.0 GiB")
    assert lines[1].strip() == "make bench a"
    assert "0.900× [0.850, 0.950] of the first" in lines[2]
    assert lines[4:] == ["-  c: oom: memory ran out", "-  large: not measured: it needs at least 9.0 GiB"]


def test_each_configuration_has_its_own_command() -> None:
    two = [
        candidate("pytorch_best", (1.0, 2.0)),
        dataclasses.replace(candidate("ortmodule", (1.0, 2.0)), parts=4),
    ]
    assert measured.overrides_of(two) == [
        "backend=[pytorch_best,ortmodule]",
        "backends.ortmodule.accumulate=4",
    ]
    line = ["experiment=advise", "results_dir=results/advise/here", "device.memory_limit_gib=3"]
    assert measured.command_of(two[1], line, "ort") == (
        'make bench ARGS="experiment=advise device.memory_limit_gib=3 backend=[ortmodule] '
        'backends.ortmodule.accumulate=4"'
    )


def test_what_ran_out_of_memory_is_tried_in_more_parts() -> None:
    smaller = measured.in_more_parts(dataclasses.replace(candidate("a", (1.0, 2.0)), parts=3), 12)
    assert smaller is not None
    assert smaller.parts == 6
    assert measured.in_more_parts(dataclasses.replace(candidate("a", (1.0, 2.0)), parts=12), 12) is None


@pytest.mark.parametrize(
    ("arguments", "words_of_it"),
    [
        ([], "how much memory training may take; set device.memory_limit_gib="),
        (["device.memory_limit_gib=-1"], "device.memory_limit_gib"),
        (["device.memory_limit_gib=4", "model=bert-huge"], "model=bert-huge does not exist; choose from"),
    ],
)
def test_a_wrong_command_line_is_refused_in_a_sentence(
    arguments: list[str], words_of_it: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["device=cpu", *arguments]) == 2
    assert words_of_it in capsys.readouterr().err
