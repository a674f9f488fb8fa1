"""Two backends on the way to a target, for real; and looking at the held-out loss changes nothing."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from bench.config.compose import compose
from bench.config.data import Data
from bench.errors import LaunchFailed
from bench.measure.comparison import Comparison
from bench.report.content.collection import read_comparison
from bench.studies.converge.ranks import evaluate
from bench.studies.converge.section import convergence_of
from bench.studies.converge.table import TABLE
from bench.worker.rank.rank import Rank
from tests.support import on_any_machine
from tests.support.configs import a_model, a_spec
from tests.support.process_group import one_rank

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.usefixtures("forked"), pytest.mark.ort]

LINE = (
    "model=bert-tiny",
    "model.config.vocab_size=512",
    "device=cpu",
    "device.world_size=1",
    "device.threads=1",
    "backend=[pytorch,ortmodule]",
    "measure=converge",
    "data=python_docs",
    "adam.lr=1e-3",
    "micro_batch=4",
    "seq_len=32",
    "measure.launches=2",
    "measure.rounds=3",
    "measure.evaluate_every=10",
    "measure.target_loss=5",
    "measure.parity_steps=3",
    "measure.wait_s=0",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of one comparison."""
    folder = tmp_path_factory.mktemp("converge")
    with on_any_machine.accepted():
        Comparison(compose([*LINE, f"results_dir={folder}"]), "m-cpu").measure()
    return folder / "m-cpu.csv"


@pytest.fixture(scope="module")
def losses(results: Path) -> pd.DataFrame:
    return TABLE.read(TABLE.path_of(results))


def test_the_held_out_loss_falls_and_all_have_taken_the_same_steps(losses: pd.DataFrame) -> None:
    courses = [one for _, one in losses.groupby(["backend", "launch"])]
    assert len(courses) == 4
    (steps,) = {tuple(one["steps"]) for one in courses}
    assert steps[0] == 0
    assert [after - before for before, after in pairwise(steps[1:])] == [10, 10]
    for one in courses:
        assert one["held_out_loss"].iloc[-1] < one["held_out_loss"].iloc[0] - 0.5
        assert one["seconds"].is_monotonic_increasing
        assert (one["seconds_with_start"] > one["seconds"]).all()


def test_all_begin_alike_and_seeds_differ(losses: pd.DataFrame) -> None:
    first = losses[losses["evaluation"] == 0]["held_out_loss"]
    assert first.nunique() == 1, "the same weights, by the same PyTorch"
    assert losses.groupby("launch")["seed"].nunique().tolist() == [1, 1]
    pytorch = losses[(losses["backend"] == "pytorch") & (losses["evaluation"] == 3)]
    assert pytorch["held_out_loss"].nunique() == 2, "the order of the data is another in each launch"


def test_the_comparison_has_an_answer(results: Path) -> None:
    found = convergence_of(read_comparison(results))
    assert found is not None
    assert [one.backend for one in found.backends] == ["pytorch", "ortmodule"]
    assert all(one.courses or one.left_out for one in found.backends)


def a_rank(folder: Path, engine: str) -> Rank:
    """One rank of a small model in this process."""
    from bench.worker.rank.training import Training

    spec = replace(
        a_spec(),
        model=a_model(),
        data=Data(name="python_docs"),
        engine=engine,
        micro_batch=4,
        seq_len=16,
        # ONNX Runtime's dropout has a generator of its own, which two trainings of a process share.
        dropout=engine == "eager",
        initial_state=str(folder / "state"),
        saves_initial_state=True,
    )
    rank = Rank(spec, rank=0, local_rank=0)
    rank.training = Training(spec, rank=0, device=torch.device("cpu"))
    return rank


def losses_of_blocks(rank: Rank, *, evaluated: bool) -> list[float]:
    """Of five blocks of two steps, with a look at the held-out loss before each, or without."""
    found: list[float] = []
    for _ in range(5):
        if evaluated:
            evaluate(rank)
        found += rank.block(2).losses
    return found


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """A process group of this process."""
    with one_rank():
        yield


@pytest.mark.parametrize("engine", ["eager", "ortmodule"])
def test_training_goes_on_as_if_nobody_had_looked(tmp_path: Path, alone: None, engine: str) -> None:
    with_looks = losses_of_blocks(a_rank(tmp_path, engine), evaluated=True)
    without = losses_of_blocks(a_rank(tmp_path, engine), evaluated=False)
    assert with_looks == pytest.approx(without, rel=1e-6)


def test_a_look_is_at_what_was_trained_and_counts_its_steps(tmp_path: Path, alone: None) -> None:
    rank = a_rank(tmp_path, "eager")
    before = evaluate(rank)
    rank.block(3)
    after = evaluate(rank)
    assert (before.steps, after.steps) == (0, 3)
    assert before.predicted == after.predicted > 0
    assert after.loss_sum != before.loss_sum
    assert rank.training.model.training, "it goes on with dropout"


def test_weights_that_no_rank_has_whole_are_unsupported(tmp_path: Path, alone: None) -> None:
    rank = a_rank(tmp_path, "eager")
    rank.spec = replace(rank.spec, sharding="zero3")
    with pytest.raises(LaunchFailed, match="leaves no rank the whole weights"):
        evaluate(rank)
