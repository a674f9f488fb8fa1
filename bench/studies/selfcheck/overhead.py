"""`make overhead`: does training under the harness take longer than in the user's own loop?

Alternates blocks of bare_loop.py, which imports nothing of the harness, with blocks of the `pytorch` backend:
same cores, threads, ranks, allocator, model and batch size. The last line is the ratio of their seconds per
step, harness over bare, with its 95 % interval.

Exit status: 0 if the ratio lies between 0.98 and 1.02, 1 if not, 2 if the command line is wrong or a launch
failed, 130 after Ctrl-C, 143 after SIGTERM.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from bench.closing import command_parser, run_command
from bench.config.compose import compose
from bench.config.model import ALL
from bench.config.schema import Config
from bench.errors import LaunchFailed, UserError
from bench.launch.messages import TimeBlock
from bench.machine.hardware import available_cores, available_gpus
from bench.measure.comparison import Comparison
from bench.measure.plan.cores import leaving_the_ranks_cores
from bench.measure.plan.plans import timed
from bench.measure.plan.preflight import check_machine, check_packages
from bench.measure.record.progress import ProgressBar
from bench.results import arithmetic
from bench.statistics import intervals
from bench.studies.selfcheck.bare_loop_ranks import BareLoop

ALLOWED = (0.98, 1.02)  # the ratios that pass: harness over bare loop
BACKEND = "pytorch"  # the backend that does what the bare loop does


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return the exit status."""
    parser = command_parser("bench.studies.selfcheck.overhead", __doc__)
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. measure=quick model=gpt2")
    parser.add_argument("--out", type=Path, help="a CSV for the seconds of every block")
    options = parser.parse_intermixed_args(arguments)
    return run_command(lambda: _compare_loops(options.overrides, options.out), "interrupted.")


def _compare_loops(overrides: Sequence[str], out: Path | None) -> int:
    try:
        seconds = _measure_blocks(_compose(overrides), Console(stderr=True))
    except LaunchFailed as error:
        raise UserError(str(error)) from error
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        seconds.to_csv(out, index=False)
    ratio = cost_of_harness(seconds)
    sides = [f"{name} {arithmetic.mean(list(seconds[name])):.4f} s per block" for name in ("harness", "bare")]
    print(f"mean of {len(seconds)} blocks of {seconds['steps'].iloc[0]} steps: {', '.join(sides)}")
    print(f"ratio {ratio}")
    return 0 if ALLOWED[0] <= ratio.ratio <= ALLOWED[1] else 1


def _compose(overrides: Sequence[str]) -> Config:
    """The configuration of both sides; refuses what the bare loop or this machine cannot do."""
    only_backend = f"backend=[{BACKEND}]"
    config = compose([only_backend, *overrides])
    if config.backends != compose([only_backend]).backends:
        raise UserError(
            f"the bare loop is compared with the backend {BACKEND} as it is",
            "leave backend=… and backends.… out",
        )
    model = config.model
    for key, value, alone in (
        ("grad_accum", config.grad_accum, 1),
        ("checkpointing", str(config.checkpointing).lower(), "false"),
        ("precision", config.precision.name, "fp32"),
        ("data", config.data.name, "synthetic"),
        ("device.nnodes", config.device.nnodes, 1),
        ("model.trained", model.trained, ALL),
        ("model.lora", model.lora, None),
        ("model.module", model.module, None),
        ("model.pretrained", model.pretrained, None),
    ):
        if value != alone:
            raise UserError(
                f"the bare loop does not do what {key}={value} asks for",
                f"set {key}={'null' if alone is None else alone}",
            )
    check_machine(config, cores=available_cores(), gpus=available_gpus())
    check_packages(config)
    return config


def cost_of_harness(seconds: pd.DataFrame) -> intervals.Speedup:
    """Seconds per step under the harness over those of the bare loop, paired within rounds."""
    ratios = (seconds["harness"] / seconds["bare"]).groupby(seconds["launch"])
    return intervals.speedup_of_launches([np.log(launch.to_numpy(float)) for _, launch in ratios])


def _measure_blocks(config: Config, console: Console) -> pd.DataFrame:
    """The seconds of every block of either side; columns: launch, round, steps, harness, bare."""
    bar = ProgressBar(console)
    comparison = Comparison(config, "overhead", bar=bar)
    blocks: list[dict[str, Any]] = []
    measure = config.measure
    bar.expect({"parity": 1, "start": measure.launches, "block": measure.launches * measure.rounds})
    with leaving_the_ranks_cores(comparison.shared.plan.cores), bar:
        if comparison.parity.run([BACKEND]) != [BACKEND]:
            raise UserError("; ".join(comparison.shared.failures.failure_lines()))
        for launch in range(1, measure.launches + 1):
            steps = blocks[0]["steps"] if blocks else 0
            blocks += _measure_launch(config, comparison, launch, steps)
    comparison.shared.output.initial_state.unlink(missing_ok=True)
    return pd.DataFrame(blocks)


def _measure_launch(config: Config, comparison: Comparison, launch: int, steps: int) -> list[dict[str, Any]]:
    """A row for each round: both sides take turns at blocks of `steps` steps (0: to be found here)."""
    measure, bar = config.measure, comparison.shared.bar
    where = f"launch {launch}/{measure.launches}"
    blocks = []
    with ExitStack() as stack:
        with bar.doing("start", f"{where}: starting both"):
            harness = stack.enter_context(comparison.shared.starter.start(BACKEND, timed(launch)))
            harness.connect()
            comparison.shared.timer.build(harness, BACKEND, timed(launch))
            comparison.shared.timer.begin(harness, BACKEND, timed(launch))
            while not comparison.shared.timer.warm_up(harness, BACKEND, timed(launch)):
                pass
            harness.pause()
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            bare = stack.enter_context(BareLoop(config, comparison.shared.plan.cores, folder))
            bare.read_lines()
            for _ in range(3):
                bare.train_block(measure.warmup_steps)
            steps = steps or comparison.shared.timer.steps_of_a_block(BACKEND, timed(launch))

        def under_the_harness() -> float:
            answers = harness.request(TimeBlock(steps=steps))
            harness.pause()
            return max(answer.seconds for answer in answers)

        sides: list[tuple[str, Callable[[], float]]] = [
            ("harness", under_the_harness),
            ("bare", partial(bare.train_block, steps)),
        ]
        for number in range(1, measure.rounds + 1):
            with bar.doing("block", f"{where}, round {number}/{measure.rounds}"):
                order = sides if (number + launch) % 2 else sides[::-1]
                seconds = {name: block() for name, block in order}
                blocks.append({"launch": launch, "round": number, "steps": steps, **seconds})
        harness.end()
    return blocks


if __name__ == "__main__":
    sys.exit(main())
