"""Faults that only a later batch or step shows: each is caught before it becomes a result, and named."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.config.backend import Backend
from bench.config.data import Data
from bench.config.model import Model
from bench.config.schema import Config
from bench.setup.checkout import ROOT
from tests.support.configs import BACKENDS, a_config, a_model
from tests.support.cores import two_cores

torch = pytest.importorskip("torch")

pytestmark = two_cores

FIRST = 2  # batches that a look at the first ones alone would see
STEPS = 8
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
QUERY = "bert.encoder.layer.0.attention.self.query.weight"

Batch = dict[str, Any]
Place = Callable[[Batch], float]  # the batch with the most of it is the faulty one
Change = Callable[[Callable[..., Any], Batch], Any]  # of what the model returns


def length(batch: Batch) -> float:
    return float(batch["attention_mask"].sum())


def shortness(batch: Batch) -> float:
    return -length(batch)


def largest_word(batch: Batch) -> float:
    return float(batch["input_ids"].max())


def labels(batch: Batch) -> float:
    return float((batch["labels"] != -100).sum())


def wrong(place: Place, change: Change, *, ranks: tuple[int, ...] = (0, 1)) -> Any:
    """A fault in what the model returns of one batch, which is not among the first."""

    def plant(training: Any, rank: int) -> None:
        right = training.model.forward
        later = [batch for (batch,) in training.feed.make(range(FIRST, training.feed.distinct))]
        faulty = max(later, key=place)["input_ids"]

        def forward(**batch: Any) -> Any:
            is_faulty = rank in ranks and torch.equal(batch["input_ids"], faulty)
            return change(right, batch) if is_faulty else right(**batch)

        training.model.forward = forward

    return plant


def scaled(by: float) -> Change:
    def change(right: Callable[..., Any], batch: Batch) -> Any:
        output = right(**batch)
        output.loss = output.loss * by
        return output

    return change


def given(**changes: Callable[[Any], Any]) -> Change:
    """Other inputs than it was given."""

    def change(right: Callable[..., Any], batch: Batch) -> Any:
        return right(**batch | {name: one(batch[name]) for name, one in changes.items()})

    return change


def raising(_: Callable[..., Any], __: Batch) -> Any:
    raise IndexError("index out of range in self")


def gradient(by: float, *, from_step: int, steps: int = 1) -> Any:
    """One tensor's gradient is wrong in some steps, from 1."""

    def plant(training: Any, _: int) -> None:
        passes: list[int] = []

        def hook(value: Any) -> Any:
            passes.append(1)
            return value * by if from_step <= len(passes) < from_step + steps else value

        training.model.get_parameter(QUERY).register_hook(hook)

    return plant


def from_step(first: int, change: Callable[[Any], None]) -> Any:
    """Something is changed before this step, from 1."""

    def plant(training: Any, _: int) -> None:
        steps: list[int] = []

        def before(*_: Any) -> None:
            steps.append(1)
            if len(steps) == first:
                change(training)

        training.sharding.optimizer.register_step_pre_hook(before)

    return plant


def raise_rate(training: Any) -> None:
    for group in training.sharding.optimizer.param_groups:
        group["lr"] *= 30


def freeze_query(training: Any) -> None:
    """Its gradient is lost from now on."""
    weight = training.model.get_parameter(QUERY)
    weight.grad.zero_()
    weight.register_hook(lambda gradient: 0 * gradient)


def repeat_batches(training: Any) -> None:
    """The first batch comes again and again."""
    training.feed.repeat([0])


@dataclass(frozen=True)
class Fault:
    plant: Any
    message: str  # as a regular expression
    status: str = "diverged"
    timed: bool = False  # it shows when it is timed


BATCH = r"the loss of batch [2-7] of rank \d"
FAULTS = {
    "of a large value": Fault(wrong(largest_word, scaled(1.001)), BATCH),
    "of the longest": Fault(wrong(length, given(labels=lambda one: one.roll(1, dims=1))), BATCH),
    "of the shortest": Fault(wrong(shortness, scaled(0.999)), BATCH),
    "of padding": Fault(wrong(shortness, given(attention_mask=torch.ones_like)), "the weight update bert."),
    "of a type": Fault(wrong(largest_word, given(input_ids=lambda one: one.to(torch.uint8).long())), BATCH),
    "of many labels": Fault(wrong(labels, scaled(1.001)), BATCH),
    "on one rank": Fault(wrong(length, scaled(1.001), ranks=(1,)), "the loss of batch [2-7] of rank 1"),
    "no number": Fault(wrong(length, scaled(float("nan"))), BATCH),
    "a crash": Fault(wrong(length, raising), r"step [2-8]: IndexError: index out", "crashed"),
    "gradient of the second step": Fault(gradient(1.05, from_step=2), f"the second gradient {QUERY}"),
    "gradient of the third step": Fault(gradient(0.0, from_step=3), f"the third gradient {QUERY}"),
    "gradient lost in one step": Fault(gradient(0.0, from_step=6), f"the weight update {QUERY}"),
    "gradient lost from a step on": Fault(from_step(6, freeze_query), f"the last gradient {QUERY}"),
    "rate of the last step": Fault(from_step(STEPS, raise_rate), BATCH.replace("2", "0")),
    "rate while it is timed": Fault(from_step(STEPS + 1, raise_rate), r"the loss of step \d+", timed=True),
    "batches while it is timed": Fault(
        from_step(STEPS + 1, repeat_batches), r"the loss of step \d+", timed=True
    ),
}

IN_MAKE_TEST = ("of a large value", "on one rank", "gradient lost from a step on", "rate while it is timed")


@pytest.fixture(scope="module", autouse=True)
def _one_rank() -> Iterator[None]:
    from tests.support.in_process import one_thread

    with one_thread():
        yield


def configured(folder: Path, model: Model | None = None, **measure: Any) -> Config:
    eager = Backend(engine="eager", optimizer="adamw", sharding="ddp")
    # Blocks of a number of steps, and not of seconds, of which a busy machine makes few steps.
    blocks = {"block_seconds": 0.01, "min_steps": 20}
    config = a_config(folder, model=model, parity_steps=STEPS, parity_tolerance=1e-4, **blocks, **measure)
    return replace(
        config,
        backends={"pytorch": eager, "faulty": eager},
        grad_accum=1,
        data=Data(name="synthetic", batches=8, lengths="uniform"),
    )


def found(config: Config, plants: dict[str, Any]) -> list[tuple[str, int, str, str]]:
    from tests.support.in_process import failures

    every = failures(config, plants)
    print(*every, sep="\n")  # pytest -rP shows the messages
    return every


@pytest.mark.parametrize(
    "name",
    [name if name in IN_MAKE_TEST else pytest.param(name, marks=pytest.mark.exhaustive) for name in FAULTS],
)
@pytest.mark.once
def test_a_fault_that_only_a_later_batch_or_step_shows_is_caught_and_named(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    model = a_model(config=a_model().config | NO_DROPOUT) if fault.timed else None
    config = configured(tmp_path, model, launches=int(fault.timed), rounds=2)
    ((backend, launch, status, message),) = found(config, {"faulty": fault.plant})
    assert (backend, launch, status) == ("faulty", int(fault.timed), fault.status)
    assert re.match(fault.message, message), message


def test_without_a_fault_there_is_none(tmp_path: Path) -> None:
    config = configured(tmp_path, a_model(config=a_model().config | NO_DROPOUT), launches=1, rounds=2)
    assert found(config, {}) == []


FROZEN = {
    # where it shows, and what the message says of the export
    ("Rounds", 0.0): (0, r"the loss of batch \d of rank 0 .*froze frozen_modules\.py, line \d+: Conv"),
    ("Branch", 0.0): (0, r"the loss of batch \d of rank 0 .*froze frozen_modules\.py, line \d+: Conv"),
    ("Late", 0.0): (1, r"the loss of step \d+ .*may have frozen what Python keeps"),
    ("Late", 0.1): (1, r"the loss of batch \d of rank \d after launch 1/1 .*may have frozen what"),
}


def with_export(folder: Path, model: Model) -> Config:
    """On one rank, since those of a group do not share weights here."""
    config = configured(folder, model, launches=1, rounds=2)
    backends = {name: BACKENDS[name] for name in ("pytorch", "ortmodule")}
    return replace(config, backends=backends, seq_len=None, device=replace(config.device, world_size=1))


def own(name: str, dropout: float) -> Model:
    where = f"{ROOT}/tests/support/frozen_modules.py:{name}"
    own_settings: dict[str, Any] = {"architecture": None, "parameters": None, "source": "", "seq_len": None}
    return Model(
        name=name.lower(),
        task="own",
        module=where,
        config={"dropout": dropout},
        micro_batch=4,
        **own_settings,
    )


@pytest.mark.ort
@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "dropout"), FROZEN)
def test_what_an_export_froze_is_seen_and_named(name: str, dropout: float, tmp_path: Path) -> None:
    ((backend, launch, status, message),) = found(with_export(tmp_path, own(name, dropout)), {})
    assert (backend, launch, status) == ("ortmodule", FROZEN[name, dropout][0], "diverged")
    assert re.match(FROZEN[name, dropout][1], message), message


@pytest.mark.ort
@pytest.mark.exhaustive
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_an_export_of_what_is_always_the_same_passes(dropout: float, tmp_path: Path) -> None:
    config = with_export(tmp_path, own("Whole", dropout))
    assert found(config, {}) == []


class Lengths:
    """A feed of one sample each, as long as this says."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths, self.distinct = lengths, len(lengths)

    def make(self, numbers: list[int]) -> Iterator[list[Batch]]:
        return ([{"attention_mask": torch.arange(16)[None] < self.lengths[number]}] for number in numbers)


def test_of_many_batches_64_are_compared_with_the_longest_and_the_shortest() -> None:
    from bench.worker.workload.choosing import choose_compared

    few: Any = Lengths([8] * 64)
    assert choose_compared(few, 64) == [*range(64)]
    many: Any = Lengths([8] * 500)
    many.lengths[333], many.lengths[444] = 16, 1
    chosen = choose_compared(many, 64)
    assert {0, 333, 444, 499} <= {*chosen}
    assert 62 <= len(chosen) <= 64
    assert max(after - before for before, after in pairwise(chosen)) <= 10


def test_the_first_batch_is_trained_and_those_that_differ_most() -> None:
    from bench.worker.workload.choosing import choose_different

    feed: Any = Lengths([8, 9, 16, 8, 1, 12, 8])
    assert choose_different(feed, [*range(7)], first=1, count=4) == [0, 2, 4, 5]
    assert choose_different(feed, [0, 1], first=1, count=4) == [0, 1], "all that there are"
