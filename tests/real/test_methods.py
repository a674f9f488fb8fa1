"""Every method of `experiment=methods` for real, on a tiny model: gates, states, what is missing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from bench.config.backend import Backend
from bench.config.schema import Config
from bench.launch.group import Group
from bench.launch.messages import TakeFirstStep
from bench.machine.variables import worker_variables
from bench.measure.comparison import Comparison
from bench.measure.plan import plans
from bench.results import csv_files
from bench.setup import stacks
from bench.worker.workload.feeds import InParts, divide
from tests.support.comparisons import Outcome
from tests.support.configs import a_config, a_model
from tests.support.cores import two_cores

pytestmark = [pytest.mark.usefixtures("forked"), two_cores]

PYTORCH = Backend(engine="eager", optimizer="adamw", sharding="ddp")
METHODS = {
    "adafactor": replace(PYTORCH, optimizer="adafactor"),
    "accumulation": replace(PYTORCH, accumulate=4),
    "smallest": replace(  # bf16 alone: tests/real/test_precision.py
        PYTORCH, optimizer="adamw_8bit_bitsandbytes", precision="bf16", checkpointing=True, accumulate=4
    ),
}
REFUSED = {
    "apex": replace(PYTORCH, optimizer="apex_fused_adam"),  # which is not installed
    "8bit_zero1": replace(PYTORCH, optimizer="adamw_8bit_bitsandbytes", sharding="zero1"),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """One launch of all of them beside plain PyTorch, on one rank, one group after the other."""
    config = one_rank(tmp_path_factory.mktemp("methods"), {"pytorch": PYTORCH} | METHODS | REFUSED)
    Comparison(config, "m-cpux1").measure()
    return csv_files.read(Path(config.results_dir) / "m-cpux1.csv")


def one_rank(folder: Path, backends: dict[str, Backend]) -> Config:
    model = a_model()
    made = a_config(
        folder,
        model=replace(
            model,
            # A mean over samples, which is the same in parts; over tokens, parts may have unequally many.
            task="sequence-classification",
            config=model.config | {"hidden_size": 64, "vocab_size": 512, "num_labels": 2},
        ),
        launches=1,
        rounds=1,
        block_seconds=0.05,
        schedule="sequential",
    )
    return replace(
        made,
        backends=backends,
        device=replace(made.device, world_size=1),
        data=replace(made.data, lengths="full"),
    )


@pytest.mark.parametrize("name", METHODS)
def test_each_method_passes_the_gates_and_is_timed(name: str, rows: pd.DataFrame) -> None:
    mine = rows[rows["backend"] == name]
    assert set(mine["status"]) <= {"ok", "invalid"}, mine["message"].tolist()
    print(name, mine["loss_difference"].max(), mine["optimizer_state_bytes"].max())
    assert mine["samples_per_s"].notna().all()
    if name == "accumulation":
        assert mine["loss_difference"].max() < 1e-6
    else:
        assert mine["loss_difference"].max() > 0


def test_what_is_missing_is_unsupported_in_a_sentence_and_the_others_go_on(rows: pd.DataFrame) -> None:
    for name, words in (
        ("apex", "optimizer=apex_fused_adam needs the package apex"),
        ("8bit_zero1", "needs whole parameters, which sharding=zero1 divides; choose sharding=ddp"),
    ):
        (row,) = rows[rows["backend"] == name].itertuples()
        assert row.status == "unsupported"
        assert words in str(row.message)


@pytest.mark.exhaustive
def test_a_mean_over_tokens_is_another_in_parts_and_that_is_seen(tmp_path: Path) -> None:
    config = one_rank(tmp_path, {"pytorch": PYTORCH, "accumulation": METHODS["accumulation"]})
    config = replace(config, model=replace(config.model, task="masked-lm"))
    config = replace(config, measure=replace(config.measure, launches=0))
    Comparison(config, "m-cpux1").measure()
    rows = csv_files.read(Path(config.results_dir) / "m-cpux1.csv").set_index("backend")
    assert rows.loc["pytorch", "status"] == "untimed"
    assert rows.loc["accumulation", "status"] == "diverged"


def test_states_have_the_bytes_that_are_predicted_and_accumulation_trains_the_same_samples(
    rows: pd.DataFrame,
) -> None:
    largest = rows.groupby("backend")[["optimizer_state_bytes", "trainable_parameters"]].max()
    of_each = largest["optimizer_state_bytes"] / largest["trainable_parameters"]
    assert of_each["pytorch"] == pytest.approx(8, rel=0.01)
    assert 0 < of_each["adafactor"] < 0.5, "a row and a column of each matrix, and whole vectors"
    assert 2 < of_each["smallest"] < 3.5, "tensors below 4,096 elements keep fp32"
    whole, parts = (rows[rows["backend"] == name].iloc[0] for name in ("pytorch", "accumulation"))
    assert (whole["micro_batch"], whole["grad_accum"]) == (4, 2)
    assert (parts["micro_batch"], parts["grad_accum"]) == (1, 8)
    assert whole["global_batch"] == parts["global_batch"]


OTHERS = {"adafactor_transformers": (0, 0.5)}
"""Optimizers, and between how many bytes of state each has for a parameter."""
if stacks.own() == "ort":  # torchao compiles for minutes; once is enough
    OTHERS |= {"adamw_8bit_torchao": (2, 3.5), "adamw_4bit_torchao": (1, 2.5)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", OTHERS)
def test_other_optimizers_pass_the_gates_and_their_states_have_their_bytes_too(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "adamw_4bit_torchao":  # what its like compiles with 8 bits says enough of compiling
        monkeypatch.setattr(
            plans,
            "worker_variables",
            lambda *a, **b: worker_variables(*a, **b) | {"TORCH_COMPILE_DISABLE": "1"},
        )
    states = {}

    class Asked(Group):
        """Compiles once: the parity launch takes the first step, too."""

        def end(self) -> None:
            (first,) = self.request(TakeFirstStep())
            states[self.local_ranks.log.parent.name] = first.optimizer_state_bytes
            super().end()

    config = one_rank(tmp_path, {"pytorch": PYTORCH, name: replace(PYTORCH, optimizer=name)})
    # Every token is in every batch: 8 bits lose a second moment that fades, and the step leaps. And tensors
    # have few shapes, each of which is compiled.
    sizes = config.model.config | {"vocab_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    config = replace(config, model=replace(config.model, config=sizes))
    config = replace(config, measure=replace(config.measure, launches=0, timeout_s=1200))
    rows = Outcome(config, Asked).rows.set_index("backend")
    assert set(rows["status"]) == {"untimed"}, rows["message"].tolist()
    least, most = OTHERS[name]
    assert least < states[name] / rows.loc[name, "trainable_parameters"] < most


class Whole:
    """A feed of two micro-batches of four samples per step."""

    padding_share: float | None = 0.5
    distinct = 8

    def __init__(self) -> None:
        self.repeated = 0

    def steps(self, count: int) -> list[list[dict[str, torch.Tensor]]]:
        return [
            [{"x": torch.arange(8).reshape(4, 2) + 100 * step + 10 * number} for number in range(2)]
            for step in range(count)
        ]

    def make(self, numbers: Sequence[int]) -> list[list[dict[str, torch.Tensor]]]:
        steps = self.steps(max(numbers) + 1)
        return [[steps[number][0]] for number in numbers]

    def repeat(self, numbers: Sequence[int]) -> None:
        self.repeated = len(numbers)

    def waited(self) -> float | None:
        return 1.5


def test_parts_hold_every_sample_once_in_order() -> None:
    whole = Whole()
    feed = InParts(whole, 2)
    (first, second) = feed.steps(2)
    assert [len(first), len(second)] == [4, 4]
    assert torch.equal(
        torch.cat([part["x"] for part in first]), torch.cat([one["x"] for one in whole.steps(1)[0]])
    )
    assert torch.equal(next(iter(feed.make([1])))[1]["x"], second[1]["x"])
    feed.repeat([0, 1, 2])
    assert (whole.repeated, feed.waited(), feed.padding_share) == (3, 1.5, 0.5)
    batch = {"x": torch.zeros(4, 2)}
    assert all(part["x"].data_ptr() >= batch["x"].data_ptr() for part in divide(batch, 4)), "views"
