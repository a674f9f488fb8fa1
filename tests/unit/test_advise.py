"""Advice: what is predicted, what is left out with which reason, what is measured, and what is said of it."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from unittest.mock import Mock

import pytest

from bench.advise import measured, words
from bench.advise.__main__ import main
from bench.advise.bounds import ANYTHING, Bounds, exactly
from bench.advise.effects import OTHER_MODEL, Effects, find_effects
from bench.advise.measured import Trained
from bench.advise.plain import PLAIN, TIME_TOLERANCE, PlainTraining, held_bytes, learn, parts_of_trials
from bench.advise.predict import Candidate, choices_of, predict, select
from bench.advise.search import (
    CLOSE,
    Advice,
    AdviceCheck,
    check_advice,
    find_best,
    in_fewer_parts,
    in_more_parts,
)
from bench.analysis.comparison_results import ComparisonResults
from bench.config.compose import compose
from bench.config.schema import Config
from bench.errors import UserError
from bench.report.content.collection import ReportedComparison
from bench.results.records import Record
from bench.sweeps.fit import ModelTrial
from tests.support.factories import comparison, failed, workload
from tests.support.result_files import table_of_records

pytestmark = pytest.mark.once

GIB = 2**30
NOTHING = Effects(speed={}, wrong={})


def effects_of(**speed: tuple[float, float]) -> Effects:
    """By a choice's value alone, where that is unambiguous."""
    choices = {"sdpa": "attention", "adamw_fused": "optimizer", "bf16": "precision"}
    return Effects(
        speed={frozenset([(choices[value], value)]): Bounds(*bounds) for value, bounds in speed.items()},
        wrong={},
    )


@cache
def a_config(*overrides: str) -> Config:
    return compose(["device=cpu", "experiment=advise", "model=bert-mini", "micro_batch=8", *overrides])


RUNTIME = 0.5 * GIB
HELD = 16 * 100_000_000


def a_trial(at_once: int, seconds: float = 1.0, fixed: float = 0.0, sample: float = 0.5 * GIB) -> ModelTrial:
    """Of a model with a hundred million parameters."""
    return ModelTrial(
        layers=4,
        parameters=HELD // 16,
        seconds=seconds,
        peak_bytes=RUNTIME + HELD + fixed + at_once * sample,
        runtime_bytes=RUNTIME,
    )


def test_what_is_held_to_be_sent_is_held_of_every_sharding() -> None:
    config = compose(["device=cpu", "device.world_size=2", "backend=[pytorch,pytorch_zero1]"])
    parameters = HELD // 16
    assert held_bytes(config, PLAIN, a_trial(1)) == 20 * parameters, (
        "every gradient once more, in DDP's buckets"
    )
    # DeepSpeed divides the states and an fp32 copy, has a bucket, and its part of the averaged gradients.
    assert held_bytes(config, "pytorch_zero1", a_trial(1)) == (8 + 12 / 2 + 4 + 4 / 2) * parameters


def a_training(fixed: float = 0.0, part_seconds: float = 0.0) -> PlainTraining:
    """Of micro-batches of eight: half a GiB a sample, and a second a step beside what its parts take."""
    trials = {parts: a_trial(8 // parts, 1 + parts * part_seconds, fixed) for parts in (8, 4)}
    return learn(trials, 8, HELD)


def predicted(
    name: str,
    limit: float,
    *overrides: str,
    effects: Effects = NOTHING,
    training: PlainTraining | None = None,
) -> Candidate:
    plain = a_config("backend=[pytorch]", *overrides)
    return predict(
        a_config(*overrides),
        name,
        plain,
        training or a_training(),
        effects=effects,
        limit_bytes=limit * GIB,
    )


# --- the trials -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("micro_batch", "parts"), [(1, [1]), (2, [2, 1]), (7, [7, 1]), (8, [8, 4]), (12, [6, 4]), (32, [8, 4])]
)
def test_trials_have_the_largest_numbers_of_parts_up_to_eight(micro_batch: int, parts: list[int]) -> None:
    assert parts_of_trials(micro_batch) == parts


def test_two_trials_show_what_grows_with_the_samples_and_what_does_not() -> None:
    training = a_training(fixed=0.2 * GIB, part_seconds=0.05)
    assert training.fixed_bytes == pytest.approx(0.2 * GIB)
    assert training.sample_bytes == pytest.approx(0.5 * GIB)
    assert training.first_bytes == pytest.approx(RUNTIME + HELD + 0.2 * GIB)
    assert (training.work_seconds, training.part_seconds) == pytest.approx((1.0, 0.05))


def test_one_trial_takes_all_memory_for_the_samples() -> None:
    alone = learn({1: a_trial(1, seconds=2.0)}, 1, HELD)
    assert (alone.fixed_bytes, alone.sample_bytes) == pytest.approx((0.0, 0.5 * GIB))
    assert alone.speed_in_parts(1, ANYTHING) == exactly(1.0)


def test_noise_makes_nothing_negative() -> None:
    odd = learn({8: a_trial(1, 0.9, fixed=GIB), 4: a_trial(2, 1.0, sample=0)}, 8, HELD)
    assert (odd.fixed_bytes, odd.sample_bytes) == (0.0, 0.0)
    assert odd.part_seconds == 0
    assert odd.speed_in_parts(8, ANYTHING).high == pytest.approx(1 + TIME_TOLERANCE)


def test_parts_cost_a_fast_configuration_more() -> None:
    """Of a step that takes half as long, the same time for each part is a larger share."""
    training = a_training(part_seconds=0.1)
    same, twice = training.speed_in_parts(4, exactly(1.0)), training.speed_in_parts(4, exactly(2.0))
    assert same.low == pytest.approx((1 - TIME_TOLERANCE) * 1.1 / 1.4)
    assert same.high == pytest.approx((1 + TIME_TOLERANCE) * 1.1 / 1.4)
    assert twice.low == pytest.approx((1 - TIME_TOLERANCE) * 0.6 / 0.9)
    assert training.speed_in_parts(4, ANYTHING).low == pytest.approx((1 - TIME_TOLERANCE) / 4)
    fewer = training.speed_in_parts(1, exactly(1.0), before=4)
    assert fewer.low == pytest.approx((1 - TIME_TOLERANCE) * 1.4 / 1.1)


# --- prediction -----------------------------------------------------------------------------------


def test_what_a_backend_changes_is_named_as_in_the_results() -> None:
    assert predicted("pytorch", 100).changes == []
    assert predicted("pytorch_best_smallest", 100).changes == [
        ("optimizer", "adafactor"),
        ("attention", "sdpa"),
        ("precision", "bf16"),
        ("checkpointing", "1"),
    ]
    config = a_config()
    every = [tuple(choices_of(config, name).items()) for name in config.backends]
    assert len({*every}) == len(every), "no two are the same"


def test_what_all_have_is_no_change() -> None:
    """The trial has it, too."""
    best = predicted("pytorch_best_checkpointing", 100, "checkpointing=true")
    assert best.changes == [("optimizer", "adamw_fused"), ("attention", "sdpa")]


@pytest.mark.parametrize(
    ("name", "keeps"),
    [
        ("pytorch", True),
        ("pytorch_best", True),
        ("pytorch_best_bf16", False),
        ("pytorch_best_adafactor", False),
    ],
)
def test_only_what_keeps_the_update_is_what_others_can_be_compared_with(name: str, keeps: bool) -> None:
    assert predicted(name, 100).keeps_update == keeps


def test_memory_is_weights_gradients_states_and_activations() -> None:
    plain = predicted("pytorch", 100)
    whole = RUNTIME + HELD + 4 * GIB
    assert plain.parts == 1
    assert (plain.memory.low, plain.memory.high) == pytest.approx((0.9 * whole, 1.1 * whole))
    stateless = predicted("pytorch_best_adafactor", 100)
    assert stateless.memory.high == pytest.approx(plain.memory.high - 1.1 * 8e8), (
        "no state, sdpa needs no more"
    )
    two_ranks = predicted("pytorch", 100, "device.world_size=2", "device.threads=1")
    assert two_ranks.memory.high == pytest.approx(2 * plain.memory.high + 2 * 1.1 * 4e8), (
        "each holds the model, and DDP's buckets the gradients once more"
    )


def test_what_does_not_grow_with_the_samples_is_not_scaled() -> None:
    training = a_training(fixed=2 * GIB)
    one, all_at_once = (
        predicted("pytorch", 4.7, training=training),
        predicted("pytorch", 100, training=training),
    )
    assert (one.parts, all_at_once.parts) == (8, 1)
    assert all_at_once.memory.high - one.memory.high == pytest.approx(1.1 * 7 * 0.5 * GIB)


def test_a_micro_batch_is_trained_in_as_few_parts_as_fit() -> None:
    assert [predicted("pytorch", limit).parts for limit in (6.5, 5, 3.5, 2.6)] == [1, 2, 4, 8]


def test_recomputed_activations_need_fewer_parts() -> None:
    limit = 4.5
    assert predicted("pytorch_best_checkpointing", limit).parts < predicted("pytorch", limit).parts


def test_speed_is_the_product_of_what_each_choice_did_here() -> None:
    effects = effects_of(sdpa=(1.0, 1.1), adamw_fused=(1.1, 1.3))
    best = predicted("pytorch_best", 100, effects=effects)
    assert (best.speed.low, best.speed.high) == pytest.approx((0.88, 1.1 * 1.3 * 1.2))
    assert predicted("pytorch_best_bf16", 100, effects=effects).speed == ANYTHING, "of bf16 nothing is known"
    assert predicted("pytorch_best", 100).speed == ANYTHING


def test_choices_that_were_measured_together_need_no_product() -> None:
    together = frozenset([("attention", "sdpa"), ("optimizer", "adamw_fused")])
    effects = Effects(speed={**effects_of(sdpa=(1.0, 1.1)).speed, together: Bounds(1.3, 1.4)}, wrong={})
    assert predicted("pytorch_best", 100, effects=effects).speed == Bounds(1.3, 1.4)


def test_the_trials_say_what_parts_cost() -> None:
    training = a_training(part_seconds=0.1)
    divided = predicted("pytorch", 3.5, training=training)
    assert divided.parts == 4
    assert divided.speed == training.speed_in_parts(4, exactly(1.0))


# --- what is left open ----------------------------------------------------------------------------


def candidate(
    name: str, speed: tuple[float, float], memory: tuple[float, float] = (1, 2), **changes: str
) -> Candidate:
    return Candidate(
        backend=name,
        changes=[],
        parts=1,
        memory=Bounds(memory[0] * GIB, memory[1] * GIB),
        sample_memory=exactly(0.1 * GIB),
        speed=Bounds(*speed),
        wrong=changes.get("wrong", ""),
    )


def test_what_cannot_be_the_best_is_left_out_with_the_reason() -> None:
    selection = select(
        [
            candidate("best", (1.5, 2.0)),
            candidate("as_good", (0.5, 1.6)),
            candidate("slow", (0.5, 1.4)),
            candidate("large", (3.0, 4.0), memory=(5, 6)),
            candidate("may_fit", (1.4, 1.6), memory=(3, 6)),
            candidate("wrong", (3.0, 4.0), wrong="diverged on bert-mini"),
        ],
        4 * GIB,
    )
    assert [one.backend for one in selection.open] == ["best", "as_good", "may_fit"]
    assert {one.backend: reason for one, reason in selection.left_out} == {
        "slow": "at most 1.40 times as fast as plain PyTorch, where best is at least 1.50 times",
        "large": "it needs at least 5.0 GiB",
        "wrong": "one of its choices ended as diverged on bert-mini on this machine",
    }


def test_what_may_not_fit_leaves_nothing_out() -> None:
    """Else nothing would be left if it does not."""
    selection = select(
        [candidate("may_fit", (3.0, 4.0), memory=(3, 6)), candidate("slow", (0.5, 1.0))], 4 * GIB
    )
    assert [one.backend for one in selection.open] == ["may_fit", "slow"]


# --- what was measured before ---------------------------------------------------------------------


def with_bf16(ratio: float) -> ComparisonResults:
    seconds = {"pytorch": 2.0, "pytorch_bf16": 2.0 / ratio}
    records = comparison({name: [[one], [one * 1.001], [one * 0.999]] for name, one in seconds.items()})
    made: list[Record] = [
        dataclasses.replace(
            one, workload=workload(precision="bf16" if one.backend == "pytorch_bf16" else "fp32")
        )
        for one in records
    ]
    return ComparisonResults(stem="methods", rows=table_of_records(made))


PLAIN_CHOICES = choices_of(a_config(), PLAIN)


def test_effects_are_those_of_this_machine_widened_for_another_model() -> None:
    here = with_bf16(1.5)
    effects = find_effects([here, with_bf16(1.7)], here.machine_key, PLAIN_CHOICES)
    bounds = effects.speed[frozenset([("precision", "bf16")])]
    assert bounds.low == pytest.approx(1.5 * (1 - OTHER_MODEL), rel=0.01)
    assert bounds.high == pytest.approx(1.7 * (1 + OTHER_MODEL), rel=0.01)
    assert not find_effects([here], ("another machine",), PLAIN_CHOICES).speed
    in_bf16 = {**PLAIN_CHOICES, "precision": "bf16"}
    assert not find_effects([here], here.machine_key, in_bf16).speed, "there bf16 would be no change"


def test_what_computes_something_else_here_is_named_with_its_end() -> None:
    def wrong(status: str) -> Effects:
        records = [
            *comparison({"pytorch": [[2.0], [2.0]]}),
            failed("compile", status, "so it is", launch=0, engine="compile"),
        ]
        results = ComparisonResults(stem="methods", rows=table_of_records(records))
        return find_effects([results], results.machine_key, PLAIN_CHOICES)

    assert wrong("diverged").wrong == {("engine", "compile"): "diverged on bert-tiny"}
    assert predicted("compile_fused", 100, effects=wrong("diverged")).wrong == "diverged on bert-tiny"
    for status in ("oom", "timeout", "unsupported"):
        assert not wrong(status).wrong, "of another model, or under another limit, it may end otherwise"


# --- what is measured and said --------------------------------------------------------------------


def timed(**seconds: float) -> ReportedComparison:
    """A comparison of these backends; the last launch of each is a little slower."""
    made = comparison({name: [[one], [one * 1.001], [one * 1.002]] for name, one in seconds.items()})
    return ReportedComparison(stem="advise", rows=table_of_records(made))


def outcome(
    name: str,
    results: ReportedComparison,
    status: str = "ok",
    chosen: Candidate | None = None,
    peak_gib: float = 2.5,
) -> Trained:
    summary = results.of(name)
    return Trained(
        candidate=chosen or candidate(name, (1.0, 2.0)),
        status=status,
        message="" if status == "ok" else "memory ran out",
        samples_per_s=summary.samples_per_s if summary and status == "ok" else None,
        peak_gib=peak_gib,
        command=f"make bench {name}",
        results=results,
    )


class Machine:
    """Trains by a script: how many seconds a step of each backend takes, and in how many parts it fits.

    Attributes:
        once: the backends of every comparison of one launch, each with its parts.
        full: likewise of those that were measured in full.
    """

    def __init__(self, fits_in: Mapping[str, int], peak_gib: float = 4.0, **seconds: float) -> None:
        self.fits_in = fits_in
        self.peak_gib = peak_gib
        self.seconds = {"pytorch": 2.0, **seconds}
        self.once: list[dict[str, int]] = []
        self.full: list[dict[str, int]] = []

    def train_once(self, some: Sequence[Candidate]) -> dict[str, Trained]:
        self.once.append({one.backend: one.parts for one in some})
        return self._train(some)

    def measure(self, some: Sequence[Candidate]) -> dict[str, Trained]:
        self.full.append({one.backend: one.parts for one in some})
        return self._train(some)

    def _train(self, some: Sequence[Candidate]) -> dict[str, Trained]:
        results = timed(**{name: self.seconds[name] for name in ("pytorch", *(one.backend for one in some))})
        reference = some[0]
        broken = reference.parts < self.fits_in.get(reference.backend, 1)
        ends = {
            one.backend: "oom"
            if one.parts < self.fits_in.get(one.backend, 1)
            else "skipped"
            if broken
            else "ok"
            for one in some
        }
        return {
            one.backend: outcome(one.backend, results, ends[one.backend], one, self.peak_gib) for one in some
        }


def best_of(machine: Machine, *candidates: Candidate, limit: float = 4) -> Advice:
    return find_best(
        candidates,
        limit_bytes=limit * GIB,
        training=a_training(part_seconds=0.1),
        train_once=machine.train_once,
        measure=machine.measure,
    )


def ends_of(advice: Advice) -> list[tuple[str, int, str]]:
    return [(one.candidate.backend, one.candidate.parts, one.status) for one in advice.outcomes]


def test_what_is_open_is_trained_once_and_the_closest_are_measured() -> None:
    machine = Machine({}, a=1.0, b=1.1, c=1.5)
    advice = best_of(
        machine,
        *(candidate(name, (1.0, 2.0)) for name in "cba"),
        candidate("never", (0.1, 0.5)),
    )
    assert machine.once == [{"c": 1, "b": 1, "a": 1}]
    assert machine.full == [{"a": 1, "b": 1}], "c was a third slower, more than CLOSE"
    assert ends_of(advice) == [("a", 1, "ok"), ("b", 1, "ok")]
    assert [one.candidate.backend for one in advice.slower] == ["c"]
    assert [one.backend for one, _ in advice.left_out] == ["never"]


def test_what_runs_out_of_memory_is_tried_in_more_parts_beside_the_fastest() -> None:
    machine = Machine({"b": 4}, a=1.0, b=0.5)
    advice = best_of(machine, candidate("a", (1.0, 2.0)), candidate("b", (1.0, 2.0)))
    assert machine.once == [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 4}]
    assert machine.full == [{"b": 4}]
    assert ends_of(advice) == [("b", 4, "ok")]


def test_what_a_failed_reference_took_along_is_trained_again() -> None:
    machine = Machine({"a": 2}, a=1.0, b=1.1)
    advice = best_of(machine, candidate("a", (1.0, 2.0)), candidate("b", (1.0, 2.0)))
    assert ends_of(advice) == [("a", 2, "ok"), ("b", 1, "ok")]


def test_what_a_candidate_had_displaced_is_open_once_that_has_failed() -> None:
    machine = Machine({"a": 16}, a=1.0, b=1.5, c=1.6)
    failing = dataclasses.replace(candidate("a", (1.0, 2.0)), parts=8)
    advice = best_of(machine, candidate("b", (0.5, 1.5)), failing, candidate("c", (0.1, 0.9)))
    assert machine.once == [{"b": 1, "a": 8}, {"b": 1, "c": 1}]
    assert ends_of(advice) == [("b", 1, "ok"), ("c", 1, "ok"), ("a", 8, "oom")]
    assert not advice.left_out


def test_what_needs_less_than_predicted_is_measured_in_fewer_parts() -> None:
    """In eight parts it takes 3 GiB; seven samples more at once are 0.7."""
    slow = dataclasses.replace(candidate("a", (0.5, 2.0)), parts=8)
    machine = Machine({}, peak_gib=3.0, a=1.3, b=1.0)
    advice = best_of(machine, slow, candidate("b", (0.5, 2.0)))
    assert machine.full == [{"b": 1, "a": 1}], "without parts it may reach b"
    assert [one.candidate.memory.high for one in advice.outcomes][1] == pytest.approx(3.7 * GIB)
    fits_two = best_of(Machine({"a": 2}, peak_gib=3.0, a=1.0, b=1.1), slow, candidate("b", (0.5, 2.0)))
    assert ends_of(fits_two) == [("a", 2, "ok"), ("b", 1, "ok")], "if it then runs out, in more parts again"


def test_fewer_parts_are_those_that_the_measured_peak_leaves_room_for() -> None:
    divided = dataclasses.replace(candidate("a", (1.0, 1.0)), parts=8)
    trained = outcome("a", timed(pytorch=2.0, a=1.0), chosen=divided, peak_gib=3.75)
    training = a_training(part_seconds=0.1)
    smaller, gain = in_fewer_parts(trained, training, 4 * GIB)
    assert smaller.parts == 4, "one sample more fits, three do not"
    assert gain == training.speed_in_parts(4, exactly(1.0), before=8)
    same, nothing = in_fewer_parts(trained, training, 3.8 * GIB)
    assert (same.parts, nothing) == (8, exactly(1.0))


def checked(machine: Machine, *candidates: Candidate) -> tuple[Advice, AdviceCheck]:
    advice = best_of(machine, *candidates)
    machine.once, machine.full = [], []
    return advice, check_advice(
        advice, candidates, micro_batch=8, train_once=machine.train_once, measure=machine.measure
    )


def test_a_check_trains_all_configurations_in_the_fewest_parts_that_fit() -> None:
    machine = Machine({"a": 2, "never": 16}, a=1.0, b=1.25, slow=2.5)
    in_more = dataclasses.replace(candidate("slow", (0.1, 0.5)), parts=4)
    advice, check = checked(machine, candidate("b", (1.0, 2.0)), candidate("a", (1.0, 2.0)), in_more)
    assert machine.once == [{"b": 1, "a": 1, "slow": 1}, {"b": 1, "a": 2}]
    assert machine.full == [], "the best was measured in full already"
    assert [(one.candidate.backend, one.candidate.parts) for one in check.outcomes] == [
        ("a", 2),
        ("b", 1),
        ("slow", 1),
    ]
    assert check.is_fastest
    assert not check.untrained
    assert words.check_answer(check, advice) == (
        "Checked: of 3 configurations trained once each, 3 train within the limit, and a, each micro-batch "
        "in 2 parts is the fastest with 159.8 samples/s: the advised one."
    )


def test_a_check_finds_what_the_advice_has_missed() -> None:
    """It is measured in full, since launches differ."""
    machine = Machine({"c": 16}, missed=1.0, b=1.25, c=3.0)
    advice, check = checked(
        machine, candidate("b", (1.0, 2.0)), candidate("missed", (0.1, 0.5)), candidate("c", (0.1, 0.5))
    )
    assert machine.full == [{"missed": 1}]
    assert check.ratio is not None
    assert check.ratio.ratio == pytest.approx(0.8)
    assert "missed is the fastest with 159.8 samples/s; measured in full, the advised one has 0.800× [" in (
        words.check_answer(check, advice)
    )
    lines = words.check_table(check).splitlines()
    assert lines[1:] == [
        "-  missed: 159.8 samples/s, peak 4.00 GiB",
        "-  b: 127.9 samples/s, peak 4.00 GiB",
        "-  c, each micro-batch in 8 parts: oom: memory ran out",
    ]


def test_a_check_compares_an_advice_with_the_same_in_fewer_parts() -> None:
    """Its peak said that it would not fit so."""
    machine = Machine({}, b=1.0)
    in_two = dataclasses.replace(candidate("b", (1.0, 2.0)), parts=2)
    _, check = checked(machine, in_two)
    assert machine.full == [{"b": 1}]
    assert not check.is_fastest
    assert check.ratio is not None


def test_a_check_names_what_had_no_turn() -> None:
    check = AdviceCheck(outcomes=[], untrained=[candidate("late", (1.0, 2.0))], is_fastest=False, ratio=None)
    assert words.check_table(check).splitlines()[1:] == ["-  late: had no turn"]


def test_the_check_may_be_asked_for_anywhere_in_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model=bert-mini", "--check", "device=cpu"]) == 2
    assert "how much memory training may take" in capsys.readouterr().err


def test_a_check_in_which_nothing_trains_says_so() -> None:
    advice, check = checked(Machine({"b": 16}, b=1.0), candidate("b", (1.0, 2.0)))
    assert (check.is_fastest, check.ratio) == (False, None)
    assert words.check_answer(check, advice) == (
        "Checked: of 1 configurations trained once each, none was timed."
    )


def test_the_answer_says_how_sure_it_is() -> None:
    def said(*outcomes: Trained) -> str:
        return words.answer(Advice(outcomes=outcomes, slower=[], left_out=[]), "bert-base", 3, "this CPU")

    results = timed(pytorch=2.0, a=1.0, b=1.2, c=1.001)
    first = outcome("a", results)
    assert said(first, outcome("b", results)) == (
        "bert-base trains fastest within 3 GiB with a: 159.8 samples/s, with a peak of 2.5 GiB, on this CPU; "
        "all others that were measured in full are slower, as their intervals tell."
    )
    one_launch = Advice(outcomes=[first], slower=[outcome("b", results)], left_out=[])
    assert words.answer(one_launch, "bert-base", 3, "this CPU").endswith(
        f"what was left then was more than {CLOSE:.0%} slower in one launch."
    )
    assert "c may be as fast" in said(first, outcome("c", timed(pytorch=2.0, c=1.001))), "across comparisons"
    assert "nothing else was timed" in said(first, outcome("b", results, status="diverged"))
    assert said(outcome("a", results, status="oom")) == (
        "Nothing that was tried trains bert-base within 3 GiB on this CPU."
    )
    assert said(outcome("a", results, status="invalid")) == (
        "No valid measurement says what trains bert-base within 3 GiB on this CPU."
    )
    assert said() == "No configuration is expected to train bert-base within 3 GiB on this CPU."


def test_the_table_has_the_rank_the_command_and_what_was_left_out() -> None:
    results = timed(pytorch=2.0, a=1.0, b=1.25)
    outcomes = [outcome("a", results), outcome("b", results), outcome("c", results, status="oom")]
    lines = words.table(
        Advice(
            outcomes=outcomes,
            slower=[outcome("b", results)],
            left_out=[(candidate("large", (1.0, 2.0)), "it needs at least 9.0 GiB")],
        )
    ).splitlines()
    assert lines[0] == (
        "1. a: 159.8 samples/s, peak 2.50 GiB (predicted 1.0 to 2.0 GiB; 1.00 to 2.00 times as fast as plain "
        "PyTorch)"
    )
    assert lines[1].strip() == "make bench a"
    assert lines[2].startswith("2. b: 127.9 samples/s, 0.800× [")
    assert lines[4:] == [
        "-  c: oom: memory ran out",
        "-  b: 127.9 samples/s in one launch",
        "-  large: not trained: it needs at least 9.0 GiB",
    ]


def test_a_comparison_has_the_reference_that_all_can_be_compared_with() -> None:
    small = dataclasses.replace(candidate("pytorch_best_smallest", (1.0, 2.0)), keeps_update=False)
    two = [small, dataclasses.replace(candidate("ortmodule", (1.0, 2.0)), parts=4)]
    line = [
        "experiment=advise",
        "reference=pytorch",
        "backend=[pytorch,ortmodule]",
        "backends.compile_fused.slowed_by=0.1",
    ]
    assert measured.overrides_of(two, line) == [
        "experiment=advise",
        "backend=[pytorch_best_smallest,ortmodule]",
        "backends.pytorch_best_smallest.accumulate=1",
        "backends.ortmodule.accumulate=4",
        "reference=ortmodule",
    ]


def test_backends_that_fill_this_machine_together_are_measured_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measured, "memory_bytes", lambda: 16 * GIB)
    two = [candidate("pytorch", (1.0, 2.0)), candidate("ortmodule", (1.0, 2.0))]
    assert "measure.resident=one" not in measured.overrides_of(two, ["device.memory_limit_gib=6"])
    assert "measure.resident=one" in measured.overrides_of(two, ["device.memory_limit_gib=7"])


def test_what_ran_out_of_memory_is_tried_in_more_parts() -> None:
    smaller = in_more_parts(dataclasses.replace(candidate("a", (1.0, 2.0)), parts=3), 12)
    assert smaller is not None
    assert smaller.parts == 6
    assert in_more_parts(dataclasses.replace(candidate("a", (1.0, 2.0)), parts=12), 12) is None


@pytest.mark.parametrize(("model", "given"), [("model=bert-tiny", True), ("model.module=net.py:Net", False)])
def test_activations_are_computed_again_in_models_of_transformers_alone(
    model: str, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    predicted: list[str] = []
    plain = Mock(machine_key="m")
    monkeypatch.setattr("bench.measure.plan.preflight.check_and_name", lambda config: "cpu")
    monkeypatch.setattr("bench.advise.plain.try_plain", lambda line, *_: (compose(line), None, plain))
    monkeypatch.setattr("bench.advise.predict.predict", lambda config, name, *_, **__: predicted.append(name))
    monkeypatch.setattr("bench.advise.predict.select", Mock(side_effect=UserError("enough")))
    assert main([model, "device.memory_limit_gib=1"]) == 2
    assert "pytorch_best" in predicted
    assert ("pytorch_best_checkpointing" in predicted) == given


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
