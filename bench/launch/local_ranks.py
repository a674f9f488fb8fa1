"""A group's ranks on one machine: torch elastic's agent that starts them, their signals, their end."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from bench.config import user_model
from bench.config.engine_options import engine_variables
from bench.config.model import Model
from bench.errors import UserError
from bench.launch import fate
from bench.launch.agents import Agent
from bench.launch.scratch import Scratch
from bench.launch.spec import WorkerSpec

MONITOR_SECONDS = 2
"""How often torch elastic's agent polls its workers; its default, 0.1 s, costs three groups 2 % of a core."""

AGENT_SECONDS = 10  # how long an agent may take to tidy up before it is killed

LOG_TAIL_BYTES = 4000


@dataclass(frozen=True, kw_only=True)
class EndReport:
    """What is known of one node's ranks after a rank or torchrun has ended."""

    exits: dict[int, int]  # by rank, the statuses of those that failed by themselves, as far as torchrun says
    agent: int | None  # torchrun's own exit status; None if it still runs
    oom_killer: bool  # whether the kernel has killed a process there for want of memory since the start
    log: str  # the end of what agent and ranks wrote


class NodeRanks(Protocol):
    """Starts on construction: `LocalRanks` here, `RemoteRanks` of `bench.plugins.cluster` on another node."""

    name: str  # what messages call the node; empty for a group on one machine

    def adopt(self, rank: int, pid: int) -> None:
        """Remember the process id of a rank; torch elastic makes each rank a session leader."""

    def signal(self, number: int) -> None:
        """Send a signal to the session of every rank."""

    def has_ended(self) -> bool:
        """Whether the agent has, or its machine cannot be reached any more."""

    def is_lost(self) -> bool:
        """Whether its machine cannot be reached any more."""

    def wait_for_end(self, seconds: float) -> EndReport:
        """What is known once the agent has ended, or after `seconds` at the latest."""

    def states(self) -> str:
        """What each rank does at this moment, in words."""

    def log_tail(self) -> str:
        """The end of what the agent and the ranks wrote."""

    def terminate(self) -> None:
        """Ask the agent to end."""

    def close(self) -> None:
        """End every process, by force where it is still there. May be called twice."""


class LocalRanks:
    """Ranks on this machine; `arguments` tell torchrun how many there are and where."""

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        arguments: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        interpreter: str,
        name: str = "",
    ) -> None:
        self.name = name
        self.pids: dict[int, int] = {}  # by rank
        self._oom_kills = fate.oom_kills()
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log.txt"
        spec.save(folder / "spec.json")
        with ExitStack() as undo:  # what a failing start has opened so far
            # Frameworks leave files there that stay behind when a process is killed.
            self.scratch = Scratch()
            undo.callback(self.scratch.remove)
            own = engine_variables(spec.engine, spec.engine_options) | {"TMPDIR": str(self.scratch.path)}
            with self.log.open("wb") as log:
                self.agent = Agent(
                    interpreter,
                    [
                        *(*arguments, f"--monitor-interval={MONITOR_SECONDS}", f"--log-dir={folder}"),
                        *("-m", "bench.worker", str(folder / "spec.json")),
                    ],
                    variables={**variables, **own},
                    log=log,
                    spec=folder / "spec.json",
                    architecture=architecture_of(spec.model),
                    imports=imports_of(spec),
                )
            undo.pop_all()

    def adopt(self, rank: int, pid: int) -> None:
        """Remember a rank that has reported, so that signals reach it."""
        self.pids[rank] = pid

    def signal(self, number: int) -> None:
        """Send a signal to every rank's session."""
        for session in self.pids.values():
            with suppress(ProcessLookupError):
                os.killpg(session, number)

    def has_ended(self) -> bool:
        """Whether the agent has ended."""
        return self.agent.poll() is not None

    def is_lost(self) -> bool:
        """Return False: this machine is here."""
        return False

    def wait_for_end(self, seconds: float) -> EndReport:
        """Wait for torchrun to end; wake paused ranks first, so that they can end."""
        self.signal(signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            self.agent.wait(seconds)
        return EndReport(
            exits=self.agent.exits,
            agent=self.agent.returncode,
            oom_killer=self._oom_kills != fate.oom_kills(),
            log=self.log_tail(),
        )

    def states(self) -> str:
        """Return what each rank does at this moment: `rank 0: sleeping, rank 1: stopped`."""
        found = dict.fromkeys(sorted(self.pids), "ended")
        for rank, pid in self.pids.items():
            with suppress(psutil.NoSuchProcess):
                found[rank] = psutil.Process(pid).status()
        return ", ".join(f"rank {rank}: {state}" for rank, state in found.items())

    def log_tail(self) -> str:
        """Return the end of the log."""
        try:
            return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        except OSError:
            return ""

    def terminate(self) -> None:
        """Ask the agent to end."""
        self.agent.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """End every process; the agent reaps its ranks first, and killed would leave them as zombies."""
        self.signal(signal.SIGKILL)
        self.pids.clear()  # closed twice, it must not reach processes that got these numbers since
        self.agent.send_signal(signal.SIGTERM)
        try:
            self.agent.wait(AGENT_SECONDS)
        except subprocess.TimeoutExpired:
            self.agent.send_signal(signal.SIGKILL)
            self.agent.wait()
        self.scratch.remove()


def architecture_of(model: Model) -> str:
    """In transformers' words; empty for a hub id, which only ranks resolve."""
    if model.architecture:
        return model.architecture
    with suppress(UserError):  # a rank says what is wrong with it
        return str((user_model.read_config(model.pretrained) or {}).get("model_type", ""))
    return ""


def imports_of(spec: WorkerSpec) -> list[str]:
    """Modules of `bench.worker` to import before ranks are forked; no loops: Trainer starts a thread.

    None with a GPU, which DeepSpeed and ONNX Runtime use at once: CUDA survives no fork.
    """
    return [f"engines.{spec.engine}", f"sharding.{spec.sharding}"] if spec.device == "cpu" else []
