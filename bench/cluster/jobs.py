"""Points of a sweep as jobs of SLURM (hydra/launcher=slurm), each in processes of its own, mostly elsewhere.

Hydra's submitit launcher pickles what `python -m bench` would have called and calls it in every task of the
job. The first task measures; the others, of which there is one on each further node, serve it as nodes.
"""

import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from bench.cluster import node
from bench.config.compose import register
from bench.config.schema import Config
from bench.errors import SweepIncomplete, UserError
from bench.results.atomic import write_atomically

EXECUTOR = "SUBMITIT_EXECUTOR"
"""Environment variable that submitit sets in the tasks of a job."""

REPORT = "outcome.json"
"""In Hydra's folder of a point: what a job has to say to the process that submitted it."""

Trouble = dict[str, list[str]]


class Sweep(Callback):
    """Notes where the jobs of this process' sweep leave their reports."""

    folder: ClassVar[Path | None] = None

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Called by Hydra in the process that submits."""
        Sweep.folder = Path(config.hydra.sweep.dir).resolve()

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, ()


def _arrived() -> Sweep:
    """Unpickled in a job, before Hydra composes the point's configuration there with our resolvers."""
    register()
    return Sweep()


def check(words: Sequence[str]) -> None:
    """Refuse a command line whose launcher would not be used, or cannot be had here.

    Raises:
        UserError: with the remedy.
    """
    launchers = [word.partition("=")[2] for word in words if word.startswith("hydra/launcher=")]
    if not launchers or launchers[-1] == "basic":
        return
    if not {"--multirun", "-m", "hydra.mode=MULTIRUN"} & {*words}:
        raise UserError(
            f"hydra/launcher={launchers[-1]} submits the points of a sweep, and would be ignored here; add "
            f"--multirun, or call `make sweep LAUNCHER={launchers[-1]}`."
        )
    if launchers[-1] == "slurm" and not shutil.which("srun"):
        raise UserError(
            "hydra/launcher=slurm needs SLURM's srun and sbatch, which are not found here; call it on a "
            "machine that submits jobs, or try hydra/launcher=local."
        )


def this_process() -> str:
    """Unlike any other's, here and elsewhere, at this time."""
    return f"{socket.gethostname()}:{os.getpid()}"


def task(variables: Mapping[str, str] = os.environ) -> int:
    """The place of this process among its job's tasks; 0 without a job."""
    return _job().global_rank if EXECUTOR in variables else 0


def serve(config: Config) -> None:
    """Be a node of the job's first task until that has ended.

    Raises:
        UserError: there is nothing to serve.
    """
    device = config.device
    tasks = _job().num_tasks
    if tasks != device.nnodes or device.rdzv_endpoint is None:
        raise UserError(
            f"a job of {tasks} tasks cannot measure on device.nnodes={device.nnodes}; "
            f"set hydra.launcher.nodes={device.nnodes}, of one task each."
        )
    node.serve(device.rdzv_endpoint, wait_s=device.rdzv_timeout_s, once=True)


def report(trouble: Trouble) -> None:
    """In a job's first task: leave this for the process that submitted it."""
    write_atomically(Path(HydraConfig.get().runtime.output_dir) / REPORT, json.dumps(trouble))


@contextmanager
def naming_failed_jobs() -> Iterator[None]:
    """A job that could not be submitted, or that has died, ends the sweep in this process.

    Raises:
        SweepIncomplete: instead of what submitit raises.
    """
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("submitit"):
            raise
        first = str(error).strip().splitlines()[0]
        logs = f"; its log, and those of the others, lie in {Sweep.folder}/.submitit" if Sweep.folder else ""
        raise SweepIncomplete(f"A job of the sweep failed: {first}{logs}.") from error


def reports() -> list[Trouble]:
    """What the jobs of this process' sweep have left."""
    if Sweep.folder is None:
        return []
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Sweep.folder.glob(f"*/{REPORT}"))]


def _job() -> Any:
    import submitit  # half a second that nobody else need wait

    return submitit.JobEnvironment()
