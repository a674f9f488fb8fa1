"""Two nodes for real, on the loopback addresses of this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from bench.config.compose import compose
from bench.measure.comparison import Comparison
from bench.plugins.cluster.rendezvous import Port
from bench.results import csv_files
from bench.results.columns import HASHES
from bench.setup.checkout import ROOT
from tests.support.cores import two_cores
from tests.support.processes import descendants, gone, name_of
from tests.support.python import run_python

pytestmark = pytest.mark.exhaustive


SECRET = "a secret of sixteen or more"


def free_port() -> int:
    port = Port()
    port.release()
    return port.number


SMALL = (
    *("device=cpu", "model=bert-tiny", "model.size=mini", "device.world_size=2", "seq_len=16"),
    *("measure=quick", "measure.launches=1", "measure.rounds=2"),
)


class Two:
    """A coordinator on the first core at 127.0.0.2 and nodes on the second, through their command lines."""

    def __init__(self, folder: Path, *, forked: bool = False) -> None:
        self.folder = folder
        self.run = ("tests.support.on_any_machine", *(["--forked"] if forked else []))
        self.endpoint = f"127.0.0.2:{free_port()}"
        self.cores = sorted(os.sched_getaffinity(0))[:2]
        self.started: list[subprocess.Popen[str]] = []

    def node(self, *arguments: str, secret: str = SECRET) -> "subprocess.Popen[str]":
        return self._start(
            1, secret, *self.run, "bench.plugins.cluster.node_agent", self.endpoint, *arguments
        )

    def coordinator(self, *overrides: str) -> "subprocess.Popen[str]":
        nodes = ("device.nnodes=2", f"device.rdzv_endpoint={self.endpoint}")
        places = (f"results_dir={self.folder}/results", f"reports_dir={self.folder}/reports")
        return self._start(0, SECRET, *self.run, "bench", *SMALL, *nodes, *places, *overrides)

    def _start(self, place: int, secret: str, module: str, *arguments: str) -> "subprocess.Popen[str]":
        started = subprocess.Popen(
            [sys.executable, "-c", _PINNED, str(self.cores[place]), module, *arguments],
            cwd=ROOT,
            env={**os.environ, "BENCH_SECRET": secret, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.started.append(started)
        return started

    def rows(self) -> pd.DataFrame:
        (written,) = csv_files.list_files(self.folder / "results")
        return pd.read_csv(written, dtype=HASHES)


_PINNED = """
import os, runpy, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
sys.argv[:3] = sys.argv[2:3]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@contextmanager
def on_two(folder: Path, *, forked: bool = False) -> Iterator[Two]:
    two = Two(folder, forked=forked)
    try:
        yield two
    finally:
        for process in two.started:
            process.kill()
            process.wait()


def told(process: "subprocess.Popen[str]", words: str) -> str:
    """Read what a process says until a line holds these words."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if words in line:
            return line
    raise AssertionError(f"it ended without {words!r}:\n{''.join(seen)}")


@two_cores
@pytest.mark.ort
@pytest.mark.usefixtures("forked")
def test_backends_over_two_nodes_train_like_two_ranks_of_one(tmp_path: Path) -> None:
    with on_two(tmp_path, forked=True) as two:
        node = two.node("--wait", "600")
        coordinator = two.coordinator("backend=[pytorch,ortmodule_zero1]")
        _, said = coordinator.communicate()
        rows = two.rows()
        node.terminate()
        assert node.wait() == 0
    assert set(rows["status"]) == {"ok"}
    assert coordinator.returncode == 0, said
    assert rows.groupby("backend").size().to_dict() == {"pytorch": 2, "ortmodule_zero1": 2}
    assert (rows["loss_difference"] < 1e-4).all()
    assert set(rows["world_size"]) == {2}
    # ZeRO's ranks really share: each has half of what AdamW keeps.
    states = rows.groupby("backend")["optimizer_state_bytes"].max()
    assert states["ortmodule_zero1"] < 0.6 * states["pytorch"]
    records = tmp_path.glob("results/runs/*/*/launch-1/pytorch/record.json")
    (losses,) = {tuple(json.loads(path.read_text())["parity_losses"]) for path in records}
    alone = Comparison(compose([*SMALL, "backend=[pytorch]", f"results_dir={tmp_path}/alone"]), "m-cpux2")
    alone.parity.run(alone.shared.names)
    assert losses == pytest.approx(alone.parity.trajectories["pytorch"].losses, rel=1e-6)


@two_cores
@pytest.mark.once
def test_a_lost_node_ends_in_a_row_and_leaves_no_process(tmp_path: Path) -> None:
    with on_two(tmp_path) as two:
        node = two.node()
        coordinator = two.coordinator(
            *("backend=[pytorch]", "measure.launches=3", "measure.block_seconds=4", "measure.rounds=1")
        )
        told(coordinator, "launch 1/3, round 1/1: pytorch")
        ranks = descendants(node.pid)
        assert {"bench-parent", "bench-rank"} < {name_of(pid) for pid in ranks}
        time.sleep(0.5)
        node.kill()
        assert "was lost during block" in told(coordinator, "pytorch, launch 1/3: crashed: node 1")
        assert gone(ranks[1:])
        _, said = coordinator.communicate()
        assert coordinator.returncode == 1
    assert "pytorch, launch 2/3: skipped: node 1" in said
    failed = two.rows()[lambda rows: rows["round"].isna()]
    assert list(failed["status"]) == ["crashed", "skipped", "skipped"]


@two_cores
@pytest.mark.once
def test_when_the_coordinator_is_killed_the_node_ends_its_ranks_and_waits_for_the_next(
    tmp_path: Path,
) -> None:
    with on_two(tmp_path) as two:
        node = two.node("--wait", "600")
        coordinator = two.coordinator("backend=[pytorch]")
        told(coordinator, "parity of pytorch")
        while len(started := descendants(node.pid)) < 4:  # the node, what forks agents, an agent, a rank
            assert coordinator.poll() is None
            time.sleep(0.1)
        coordinator.kill()
        told(node, "the coordinator has ended")
        assert gone(started[2:]), "what forks agents waits for the next coordinator, too"
        told(node, "waiting up to")
        node.send_signal(signal.SIGINT)
        assert node.wait() == 0
        assert gone(started)


@pytest.mark.once
def test_the_command_lines_refuse_in_a_sentence(tmp_path: Path) -> None:
    with on_two(tmp_path) as two:
        with on_two(tmp_path) as others:
            lonely = others.coordinator("device.rdzv_timeout_s=1")
            _, said = lonely.communicate()
        assert lonely.returncode == 2
        assert "0 of 1 other nodes reported" in said.splitlines()[-1]
        two.coordinator()
        stranger = two.node(secret="this is another secret")
        _, said = stranger.communicate()
        assert stranger.returncode == 2
        assert said.splitlines()[-1] == (
            f"The coordinator at {two.endpoint} has another BENCH_SECRET; set the same on all nodes."
        )
        assert not (tmp_path / "results").exists() or not list((tmp_path / "results").glob("*.csv"))
        done = run_python(
            "-m", "bench.plugins.cluster.node_agent", "nowhere", variables={"BENCH_SECRET": SECRET}
        )
        assert (done.returncode, done.stderr.count("Traceback")) == (2, 0)
        assert "nowhere is not HOST:PORT" in done.stderr
