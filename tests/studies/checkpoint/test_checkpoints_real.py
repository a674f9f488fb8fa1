"""Training states saved and loaded for real: by a fresh process, after a kill, damaged, on a full disk."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from bench.config.backend import Backend
from bench.config.schema import Config
from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.launch.messages import Build, ParityTrained, TrainForParity, UseBatches
from bench.measure.comparison import Comparison
from bench.measure.plan.plans import PARITY
from bench.studies.checkpoint.files import NAME, UNFINISHED, find_newest
from bench.studies.checkpoint.messages import LoadCheckpoint, SaveCheckpoint
from bench.studies.checkpoint.stage import SAME
from bench.studies.checkpoint.table import TABLE as CHECKPOINTS
from tests.support.configs import BACKENDS, SMALL, a_config, a_model

pytestmark = [pytest.mark.usefixtures("forked")]

STEPS = 3
"""Before a save by these groups: an odd number, so that the next micro-batch is not the first."""

WORDS = 40_000
PARAMETERS = SMALL + (WORDS - 512) * 65
"""Of a model with so many words, each with 64 weights and a bias."""

OTHERS = {
    "zero_redundancy": Backend(engine="eager", optimizer="adamw", sharding="zero_redundancy"),
    "zero3": Backend(engine="eager", optimizer="adamw", sharding="zero3"),
    "accelerate": Backend(engine="eager", optimizer="adamw", sharding="ddp", loop="accelerate"),
}


def config(folder: Path, **changed: object) -> Config:
    made = a_config(folder, launches=0, parity_steps=STEPS)
    made = replace(made, after="checkpoint", adam=replace(made.adam, lr=1e-3, weight_decay=0.01))
    return replace(made, **changed)  # type: ignore[arg-type]


def states(made: Config) -> pd.DataFrame:
    """What became of the backends' checkpoints."""
    Comparison(made, "m-cpu").measure()
    return CHECKPOINTS.read(CHECKPOINTS.path_of(Path(made.results_dir) / "m-cpu.csv")).set_index("backend")


def check_saved(table: pd.DataFrame, parameters: int | None) -> None:
    assert set(table["status"]) == {"ok"}, table["message"].tolist()
    assert (table["difference"].astype(float) <= SAME).all()
    assert parameters is not None
    assert (table["checkpoint_mib"] * 2**20 > 12 * parameters).all(), "weights and two states"
    assert (table[["save_s", "load_s"]] > 0).all(axis=None)


@pytest.mark.ort
def test_every_backend_of_the_mission_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    made = config(tmp_path)
    table = states(made)
    assert list(table.index) == list(BACKENDS)
    check_saved(table, made.model.parameters)
    assert not list(Path(made.results_dir).glob(f"runs/m-cpu/*/checkpoints/*/{NAME}*")), "large, and removed"


@pytest.mark.exhaustive
def test_other_shardings_do_so_too_and_a_loop_says_that_it_does_not(tmp_path: Path) -> None:
    backends = {"pytorch": BACKENDS["pytorch"], **OTHERS}
    made = config(tmp_path, backends=backends)
    table = states(made)
    check_saved(table.drop(index="accelerate"), made.model.parameters)
    assert table.loc["accelerate", "status"] == "unsupported"
    assert "loop=accelerate keeps checkpoints of its own" in str(table.loc["accelerate", "message"])


class Trainer:
    """Starts groups of one backend that train a model with a large vocabulary: its state takes time to write.

    Args:
        folder: of the groups' files and of the checkpoints.
        backend: which.
        ranks: of a group.
        checkpoints_in: where they lie, if not in that folder.
    """

    def __init__(
        self, folder: Path, backend: str, *, ranks: int = 2, checkpoints_in: Path | None = None
    ) -> None:
        model = a_model()
        large = replace(model, config={**model.config, "vocab_size": WORDS}, parameters=PARAMETERS)
        made = config(
            folder,
            model=large,
            backends={"pytorch": BACKENDS["pytorch"], backend: BACKENDS[backend]},
        )
        made = replace(made, device=replace(made.device, world_size=ranks))
        self._comparison = Comparison(made, "m-cpu")
        self._comparison.shared.output.folder.mkdir(parents=True)
        self._folder = folder
        self._backend = backend
        self._started = 0
        self.checkpoints = checkpoints_in or folder / "checkpoints"
        if backend != "pytorch":  # which saves the initial state
            with self.group("pytorch") as group:
                group.request(Build())
                group.end()

    @contextmanager
    def group(self, backend: str = "", **changed: object) -> Iterator[Group]:
        """A fresh one, with a changed spec."""
        self._started += 1
        name = backend or self._backend
        spec = replace(self._comparison.shared.starter.spec(name, PARITY), **changed)  # type: ignore[arg-type]
        with self._comparison.shared.starter.start_spec(
            spec, self._folder / f"{name}-{self._started}"
        ) as group:
            group.connect()
            yield group

    @contextmanager
    def trained(self, **changed: object) -> Iterator[Group]:
        """A fresh one after the first steps."""
        with self.group(**changed) as group:  # type: ignore[arg-type]
            group.request(Build())
            group.request(UseBatches(numbers=[[0, 1, 2, 3]]))
            group.request(TrainForParity(steps=STEPS))
            yield group

    def save(self, steps: int = STEPS) -> SaveCheckpoint:
        return SaveCheckpoint(folder=str(self.checkpoints), steps=steps)

    def resumed(self) -> list[float]:
        """The next losses of a fresh group that loads the newest checkpoint."""
        with self.group() as group:
            group.request(Build())
            group.request(UseBatches(numbers=[[0, 1, 2, 3]]))
            loaded = group.request(LoadCheckpoint(folder=str(self.checkpoints)))
            assert {one.steps for one in loaded} == {STEPS}
            losses = losses_of(group.request(TrainForParity(steps=3)))
            group.end()
        return losses


def losses_of(answers: Sequence[ParityTrained]) -> list[float]:
    return [one for answer in answers for one in answer.losses]


@pytest.mark.ort
@pytest.mark.parametrize(
    "backend", ["pytorch", pytest.param("ortmodule_zero1", marks=pytest.mark.exhaustive)]
)
def test_a_save_that_is_killed_leaves_the_one_before(backend: str, tmp_path: Path) -> None:
    """By DDP, and by ZeRO-1 under ORTModule: the two ways in which states are written."""
    trainer = Trainer(tmp_path, backend)
    with trainer.trained() as group:
        group.request(trainer.save())
        expected = losses_of(group.request(TrainForParity(steps=3)))
        group.ask(trainer.save(STEPS + 3))
        unfinished = trainer.checkpoints / UNFINISHED
        while not any(path.is_file() for path in unfinished.rglob("*")):
            time.sleep(0.0005)
        for pid in group.pids.values():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(LaunchFailed):
            group.answers(trainer.save())
    assert unfinished.exists(), "killed half-way"
    assert [path.name for path in trainer.checkpoints.glob(f"{NAME}*")] == [f"{NAME}000001"]
    assert trainer.resumed() == pytest.approx(expected, rel=SAME)


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_lost_state_of_the_optimizer_would_be_seen(tmp_path: Path) -> None:
    """Else the comparison of losses would say nothing."""
    trainer = Trainer(tmp_path, "pytorch", ranks=1)
    with trainer.trained() as group:
        group.request(trainer.save())
        expected = losses_of(group.request(TrainForParity(steps=3)))
    forget = (
        "import sys, torch; path = sys.argv[1]; state = torch.load(path, weights_only=True); "
        "state['optimizer']['state'] = {}; torch.save(state, path)"
    )
    newest = find_newest(trainer.checkpoints)
    subprocess.run([sys.executable, "-c", forget, str(newest / "state.pt")], check=True)
    with pytest.raises(
        LaunchFailed, match=r"the checkpoint is damaged: the content of state\.pt has changed"
    ):
        trainer.resumed()
    newest.rename(trainer.checkpoints / UNFINISHED)
    listing = "import sys, pathlib, bench.studies.checkpoint.files as files; "
    listing += "(pathlib.Path(sys.argv[1]) / files.UNFINISHED / files.LIST).unlink(); "
    listing += "files.finish(pathlib.Path(sys.argv[1]), int(sys.argv[2]))"
    subprocess.run([sys.executable, "-c", listing, str(trainer.checkpoints), str(STEPS)], check=True)
    differences = [abs(ours / theirs - 1) for ours, theirs in zip(trainer.resumed(), expected, strict=True)]
    assert max(differences) > 10 * SAME


@pytest.mark.once
@pytest.mark.exhaustive
def test_a_disk_that_is_full_ends_in_a_sentence_and_keeps_the_one_before(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    size = 12 * PARAMETERS * 3 // 2  # one fits, two do not
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no right to mount a small file system")
    try:
        trainer = Trainer(tmp_path, "pytorch", ranks=1, checkpoints_in=disk / "checkpoints")
        with trainer.trained() as group:
            group.request(trainer.save())
            expected = losses_of(group.request(TrainForParity(steps=3)))
            with pytest.raises(
                LaunchFailed, match=r"there is no room for a checkpoint in .*; make room, and go on"
            ) as full:
                group.request(trainer.save(STEPS + 3))
        assert "\n" not in full.value.message
        assert trainer.resumed() == pytest.approx(expected, rel=SAME)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
