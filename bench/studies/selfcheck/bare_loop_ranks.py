"""The ranks of bare_loop.py: starts them with the batches and cores of the harness, asks, ends them."""

import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bench.config import sizes
from bench.config.identity import environment_settings
from bench.config.schema import Config
from bench.errors import LaunchFailed
from bench.launch.agents import Agent
from bench.machine.variables import worker_variables
from bench.worker.workload import tasks  # without a framework: names, and batches from numpy's generator
from bench.worker.workload.synthetic import synthetic

SCRIPT = Path(__file__).with_name("bare_loop.py")


class BareLoop:
    """The ranks of bare_loop.py, which train a block when they are asked to, each on its cores.

    They read how many steps from a pipe and answer over another with the seconds; between blocks they are
    stopped. Pipes, batches and the log lie in `folder`, which is empty before. LaunchFailed if they fail or
    take longer than measure.timeout_s.
    """

    def __init__(self, config: Config, cores: Sequence[Sequence[int]], folder: Path) -> None:
        self.world_size = config.device.world_size
        self.timeout_s = config.measure.timeout_s
        self.folder = folder
        self.pids: list[int] = []
        job = folder / "job.json"
        job.write_text(
            json.dumps(
                {
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
            ),
            encoding="utf-8",
        )
        for rank in range(self.world_size):
            np.savez(folder / f"batches-{rank}.npz", **_batches_of(config, rank))
            os.mkfifo(folder / f"ask-{rank}")
            os.mkfifo(folder / f"answer-{rank}")
        # Both ends stay open here, so that neither opening nor writing waits for a loop that has died.
        self.asks, self.answers = (
            [os.open(folder / f"{end}-{rank}", os.O_RDWR) for rank in range(self.world_size)]
            for end in ("ask", "answer")
        )
        variables = worker_variables(os.environ, **environment_settings(config))
        with (folder / "log.txt").open("wb") as log:
            self.agent = Agent(
                sys.executable,
                [
                    *("--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={self.world_size}"),
                    "--monitor-interval=2",
                    *("-m", "bench.launch.lifeline", str(SCRIPT), str(job), str(folder)),
                ],
                variables=variables,
                log=log,
            )

    def __enter__(self) -> "BareLoop":
        return self

    def __exit__(self, *_: object) -> None:
        self._signal(signal.SIGKILL)
        self.agent.terminate()
        self.agent.wait()
        for end in (*self.asks, *self.answers):
            os.close(end)
        self.asks, self.answers, self.pids = [], [], []

    def wait_until_built(self) -> None:
        """Wait until every rank has built its model."""
        self.pids = [int(line) for line in self._read_lines()]

    def train_block(self, steps: int) -> float:
        """Train `steps` steps on every rank; the seconds of the slowest.

        Until the next block the ranks are stopped, so that they take no time from the other side.
        """
        self._signal(signal.SIGCONT)
        for ask in self.asks:
            os.write(ask, f"{steps}\n".encode())
        seconds = max(float(line) for line in self._read_lines())
        self._signal(signal.SIGSTOP)
        return seconds

    def _read_lines(self) -> list[str]:
        """One line from every rank."""
        texts = dict.fromkeys(self.answers, b"")
        deadline = time.monotonic() + self.timeout_s
        with selectors.DefaultSelector() as selector:
            for end in self.answers:
                selector.register(end, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(5):
                    texts[key.fd] += os.read(key.fd, 4096)
                    if texts[key.fd].endswith(b"\n"):
                        selector.unregister(key.fd)
                if self.agent.poll() is not None or time.monotonic() > deadline:
                    log = (self.folder / "log.txt").read_text(errors="replace")
                    raise LaunchFailed("crashed", f"the bare loop failed:\n{log[-3000:]}")
        return [texts[end].decode().strip() for end in self.answers]

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.killpg(pid, number)


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
