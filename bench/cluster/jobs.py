"""Runs the points of a sweep as SLURM jobs (hydra/launcher=slurm) and collects what they report.

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

from bench.cluster import node_agent
from bench.config.compose import register
from bench.config.schema import Config
from bench.errors import SweepIncomplete, UserError
from bench.results.atomic import write_atomically

EXECUTOR = "SUBMITIT_EXECUTOR"  # environment variable that submitit sets in the tasks of a job

REPORT = "outcome.json"
"""In Hydra's folder of a point: the file in which a job reports to the process that submitted it."""

JobReport = dict[str, list[str]]


class SweepReports(Callback):
    """Remembers the folder in which the jobs of this process's sweep write their reports."""

    folder: ClassVar[Path | None] = None

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Called by Hydra in the process that submits."""
        SweepReports.folder = Path(config.hydra.sweep.dir).resolve()

    def __reduce__(self) -> tuple[Any, ...]:
        return _recreate_in_job, ()


def _recreate_in_job() -> SweepReports:
    """Unpickled in a job, before Hydra composes the point's configuration there with our resolvers."""
    register()
    return SweepReports()


def check_launcher(words: Sequence[str]) -> None:
    """Refuse a command line whose launcher would be ignored or is not available here.

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


def process_name() -> str:
    """A name of this process that no other process has at this time, on any machine."""
    return f"{socket.gethostname()}:{os.getpid()}"


def task_number(variables: Mapping[str, str] = os.environ) -> int:
    """The number of this process among the tasks of its job, from 0; 0 without a job."""
    return _job().global_rank if EXECUTOR in variables else 0


def serve_first_task(config: Config) -> None:
    """Take part as a node in the comparison that the job's first task measures, until that task ends.

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
    node_agent.serve(device.rdzv_endpoint, wait_s=device.rdzv_timeout_s, once=True)


def write_report(report: JobReport) -> None:
    """In a job's first task: write what went wrong for the process that submitted the job."""
    write_atomically(Path(HydraConfig.get().runtime.output_dir) / REPORT, json.dumps(report))


@contextmanager
def naming_failed_jobs() -> Iterator[None]:
    """If a job could not be submitted or has died, end the sweep and name its log.

    Raises:
        SweepIncomplete: instead of what submitit raises.
    """
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("submitit"):
            raise
        first = str(error).strip().splitlines()[0]
        folder = SweepReports.folder
        logs = f"; its log, and those of the others, lie in {folder}/.submitit" if folder else ""
        raise SweepIncomplete(f"A job of the sweep failed: {first}{logs}.") from error


def read_reports() -> list[JobReport]:
    """The reports of all jobs of this process's sweep."""
    if SweepReports.folder is None:
        return []
    reports = sorted(SweepReports.folder.glob(f"*/{REPORT}"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in reports]


def _job() -> Any:
    import submitit  # takes half a second, which only jobs need to wait

    return submitit.JobEnvironment()
