"""`make overhead`: does training under the harness take longer than in a loop of one's own?

Alternates blocks of bare_loop.py, which imports nothing of the harness, with blocks of the `pytorch` backend:
same cores, threads, ranks, allocator, model and batch size. The last line is the ratio of their seconds per
step, harness over bare, with its 95 % interval; exit status 1 if the ratio is outside 0.98 to 1.02.
"""

import argparse
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from bench.analysis import intervals
from bench.config import mini
from bench.config.compose import compose
from bench.config.schema import Config
from bench.errors import LaunchFailed, UserError
from bench.launch.lifeline import Terminated
from bench.machine.facts import available_cores, available_gpus
from bench.machine.variables import worker_environment
from bench.measure.comparison import Comparison, leaving_the_ranks_cores
from bench.measure.preflight import check_machine, check_packages
from bench.measure.progress import Bar
from bench.results import arithmetic
from bench.worker.workload import tasks
from bench.worker.workload.synthetic import synthetic

LOOP = Path(__file__).with_name("bare_loop.py")
ALLOWED = (0.98, 1.02)
BACKEND = "pytorch"


class BareLoop:
    """The processes of bare_loop.py; raises LaunchFailed when they fail or take too long."""

    def __init__(self, config: Config, cores: Sequence[Sequence[int]], folder: Path) -> None:
        self.world_size = config.device.world_size
        self.timeout_s = config.measure.timeout_s
        self.folder = folder
        self.pids: list[int] = []
        job = folder / "job.json"
        job.write_text(json.dumps(_job(config, cores)), encoding="utf-8")
        for rank in range(self.world_size):
            np.savez(folder / f"batches-{rank}.npz", **_batches(config, rank))
            os.mkfifo(folder / f"ask-{rank}")
            os.mkfifo(folder / f"answer-{rank}")
        # Both ends stay open here, so that neither opening nor writing waits for a loop that has died.
        self.asks = [_opened(folder / f"ask-{rank}") for rank in range(self.world_size)]
        self.answers = [_opened(folder / f"answer-{rank}") for rank in range(self.world_size)]
        variables = worker_environment(
            os.environ,
            device=config.device.type,
            threads=config.device.threads,
            allocator=config.device.allocator,
            precision=config.precision.name,
            checkpointing=config.checkpointing,
        )
        with (folder / "log.txt").open("wb") as log:
            self.agent = subprocess.Popen(
                [
                    *(sys.executable, "-m", "bench.launch.agent", str(os.getpid()), "--standalone"),
                    *(f"--nproc-per-node={self.world_size}", "--monitor-interval=2"),
                    *("-m", "bench.launch.lifeline", str(LOOP), str(job), str(folder)),
                ],
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> "BareLoop":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Wait until every rank has built its model."""
        self.pids = [int(line) for line in self._lines()]

    def block(self, steps: int) -> float:
        """Seconds of the slowest rank for so many steps."""
        self._signal(signal.SIGCONT)
        for ask in self.asks:
            os.write(ask, f"{steps}\n".encode())
        return max(float(line) for line in self._lines())

    def pause(self) -> None:
        """Stop the ranks until the next block, as the harness stops its own."""
        self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """End every process."""
        self._signal(signal.SIGKILL)
        self.agent.terminate()
        self.agent.wait()
        for end in (*self.asks, *self.answers):
            os.close(end)
        self.asks, self.answers, self.pids = [], [], []

    def _lines(self) -> list[str]:
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
                    raise LaunchFailed("crashed", "the bare loop failed:\n" + self._log())
        return [texts[end].decode().strip() for end in self.answers]

    def _log(self) -> str:
        return (self.folder / "log.txt").read_text(errors="replace")[-3000:]

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.killpg(pid, number)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.selfcheck.overhead",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. measure=quick model=gpt2")
    parser.add_argument("--out", type=Path, help="a CSV for the seconds of every block")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        config = compose([f"backend=[{BACKEND}]", *options.overrides])
        if config.grad_accum != 1:
            raise UserError(
                f"the bare loop does not accumulate gradients; leave grad_accum={config.grad_accum} out."
            )
        if config.model.lora is not None or config.checkpointing:
            raise UserError(
                "the bare loop trains whole models and keeps their activations; "
                "choose model.lora=null and checkpointing=false."
            )
        check_machine(config, cores=available_cores(), gpus=available_gpus())
        check_packages(config)
        seconds = _measured(config, console)
    except (UserError, LaunchFailed) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return 130
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        seconds.to_csv(options.out, index=False)
    found = cost(seconds)
    print(_per_block(seconds))
    print(line(found))
    return 0 if ALLOWED[0] <= found.ratio <= ALLOWED[1] else 1


def cost(seconds: pd.DataFrame) -> intervals.Speedup:
    """Seconds per step under the harness over those of the bare loop, paired within rounds."""
    table = seconds.set_index(["launch", "round"])
    found = intervals.speedup_of_rounds(np.log(table["harness"] / table["bare"]))
    assert found is not None, "there is at least one round"
    return found


def line(found: intervals.Speedup) -> str:
    """`ratio 1.003 [0.995, 1.012]`."""
    interval = "" if found.low is None else f" [{found.low:.3f}, {found.high:.3f}]"
    return f"ratio {found.ratio:.3f}{interval}"


def _per_block(seconds: pd.DataFrame) -> str:
    sides = [f"{name} {arithmetic.mean(list(seconds[name])):.4f} s per block" for name in ("harness", "bare")]
    return f"mean of {len(seconds)} blocks of {seconds['steps'].iloc[0]} steps: {', '.join(sides)}"


def _measured(config: Config, console: Console) -> pd.DataFrame:
    """The seconds of every block of either side: launch, round, steps, harness, bare."""
    comparison = Comparison(config, "overhead")
    blocks: list[dict[str, Any]] = []
    measure = config.measure
    planned = {"parity": 1, "start": measure.launches, "block": measure.launches * measure.rounds}
    with leaving_the_ranks_cores(comparison.cores), Bar(planned, console) as bar:
        if comparison.check_parity(bar) != [BACKEND]:
            raise UserError("; ".join(comparison.failures()))
        for launch in range(1, measure.launches + 1):
            blocks += _launch(comparison, launch, bar)
    comparison.initial_state.unlink(missing_ok=True)
    return pd.DataFrame(blocks)


def _launch(comparison: Comparison, launch: int, bar: Bar) -> list[dict[str, Any]]:
    measure = comparison.config.measure
    where = f"launch {launch}/{measure.launches}"
    blocks = []
    with ExitStack() as stack:
        with bar.doing("start", f"{where}: starting both"):
            harness = stack.enter_context(comparison.start(BACKEND, launch))
            harness.connect()
            comparison.set_up(harness, BACKEND, launch)
            harness.pause()
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            bare = stack.enter_context(BareLoop(comparison.config, comparison.cores, folder))
            bare.connect()
            for _ in range(3):
                bare.block(measure.warmup_steps)
            bare.pause()
            if not comparison.steps:
                comparison.steps = comparison.steps_of_a_block(harness)
            steps = comparison.steps
            harness.pause()

        def under_the_harness() -> float:
            answers = harness.request("block", steps=steps)
            harness.pause()
            return arithmetic.block_seconds(answer["seconds"] for answer in answers)

        def in_the_bare_loop() -> float:
            seconds = bare.block(steps)
            bare.pause()
            return seconds

        sides = [("harness", under_the_harness), ("bare", in_the_bare_loop)]
        for number in range(1, measure.rounds + 1):
            with bar.doing("block", f"{where}, round {number}/{measure.rounds}"):
                order = sides if (number + launch) % 2 else sides[::-1]
                seconds = {name: timed() for name, timed in order}
                blocks.append({"launch": launch, "round": number, "steps": steps, **seconds})
        harness.end()
    return blocks


def _job(config: Config, cores: Sequence[Sequence[int]]) -> dict[str, Any]:
    """What bare_loop.py is told."""
    return {
        **{key: getattr(config, key) for key in ("attention", "seed")},
        "architecture": config.model.architecture,
        "config": _shape(config),
        **{key: getattr(config.adam, key) for key in ("lr", "weight_decay")},
        "head": tasks.make(config.model.task).head,
        "device": config.device.type,
        "threads": config.device.threads,
        "cores": [list(share) for share in cores],
    }


def _shape(config: Config) -> dict[str, Any]:
    """What the transformers configuration is made of."""
    model = config.model
    return mini.shrink(model.config) if model.size == "mini" else model.config


def _batches(config: Config, rank: int) -> dict[str, Any]:
    """The harness's own batches of this rank, each input of shape (batches, micro_batch, seq_len)."""
    made = synthetic(
        config.data,
        task=config.model.task,
        settings=SimpleNamespace(**_shape(config)),
        count=config.data.batches,
        micro_batch=config.micro_batch,
        seq_len=config.seq_len,
        seed=config.seed,
        rank=rank,
    )
    return {name: np.stack([batch[name] for batch in made]) for name in made[0]}


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR)


if __name__ == "__main__":
    Terminated.catch()  # SIGTERM, too, must reach the bare loop's stopped ranks
    sys.exit(main())
