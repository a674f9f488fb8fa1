"""The ranks of bare_loop.py: starts them with the batches and cores of the harness, asks, ends them."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bench.config import sizes
from bench.config.schema import Config
from bench.errors import LaunchFailed
from bench.launch.lifeline import AGENT_VARIABLE
from bench.machine.variables import worker_variables
from bench.measure.plan.resolve import environment_settings
from bench.worker.workload import tasks  # without a framework: names, and batches from numpy's generator
from bench.worker.workload.synthetic import synthetic

SCRIPT = Path(__file__).with_name("bare_loop.py")


class BareLoop:
    """The ranks of bare_loop.py, which train a block when they are asked to, each on its cores.

    Between blocks they are stopped. Batches and the log lie in `folder`, which is empty before. LaunchFailed
    if they fail or take longer than measure.timeout_s.
    """

    def __init__(self, config: Config, cores: Sequence[Sequence[int]], folder: Path) -> None:
        self.timeout_s = config.measure.timeout_s
        self.log = folder / "log.txt"
        job = {
            "attention": config.attention,
            "seed": config.seed,
            "architecture": config.model.architecture,
            "config": sizes.resize(config.model.config, config.model.size),
            "lr": config.adam.lr,
            "weight_decay": config.adam.weight_decay,
            "head": tasks.make(config.model.task).head,
            "device": config.device.type,
            "threads": config.device.threads,
            "cores": [list(share) for share in cores],
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        ranks = config.device.world_size
        variables = worker_variables(os.environ, **environment_settings(config))
        variables |= {"WORLD_SIZE": str(ranks), AGENT_VARIABLE: str(os.getpid())}
        self.ranks: list[Any] = []  # of subprocess.Popen
        with self.log.open("wb") as log:
            for rank in range(ranks):
                np.savez(folder / f"batches-{rank}.npz", **_batches_of(config, rank))
                process = subprocess.Popen(
                    [sys.executable, "-m", "bench.studies.selfcheck.script", str(SCRIPT), str(folder)],
                    env={**variables, "RANK": str(rank)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,  # the terminal's Ctrl-C is for the coordinator alone
                )
                self.ranks.append(process)

    def __enter__(self) -> "BareLoop":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.ranks:
            process.kill()
            process.communicate()

    def train_block(self, steps: int) -> float:
        """Train on every rank, then stop them for the other side's sake; seconds of the slowest."""
        for process in self.ranks:
            process.send_signal(signal.SIGCONT)
            with suppress(BrokenPipeError):  # a rank that has died answers nothing
                os.write(process.stdin.fileno(), f"{steps}\n".encode())
        seconds = max(map(float, self.read_lines()))
        for process in self.ranks:
            process.send_signal(signal.SIGSTOP)
        return seconds

    def read_lines(self) -> list[str]:
        """One line from every rank; the first says that it has built its model."""
        lines = []
        for process in self.ranks:
            there, _, _ = select.select([process.stdout], [], [], self.timeout_s)
            lines.append(process.stdout.readline().decode() if there else "")
            if not lines[-1]:
                said = self.log.read_text(errors="replace")
                raise LaunchFailed("crashed", f"the bare loop failed:\n{said[-3000:]}")
        return lines


def _batches_of(config: Config, rank: int) -> dict[str, Any]:
    """The batches that the harness gives this rank: each input, stacked along a first axis of batches."""
    model = sizes.resize(config.model.config, config.model.size)
    made = synthetic(
        config.data,
        task=config.model.task,
        settings=SimpleNamespace(**{"pad_token_id": 0} | model),  # unnamed, it is 0
        count=config.data.batches,
        micro_batch=config.micro_batch,
        seq_len=config.seq_len,
        seed=config.seed,
        rank=rank,
    )
    return {name: np.stack([batch[name] for batch in made]) for name in made[0]}
