"""Starts the worker group of one backend in one launch, on this node and on the others."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.config.training import Precision
from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.launch.spec import WorkerSpec
from bench.measure.plan.plans import PARITY, ComparisonPlan, Launch
from bench.results.records import LaunchStage
from bench.study import block_steps


@dataclass
class GroupStarter:
    """Starts groups; their ranks may not have connected yet."""

    plan: ComparisonPlan
    start_group: Callable[..., Group] = Group  # `Group`; tests give their own
    nodes: Any = None  # the other ones, a `bench.plugins.cluster.node_pool.NodePool`; None if there are none
    # of timed launches by backend, in samples per rank, as a search has found them; else the configured one
    micro_batches: dict[str, int] = field(default_factory=dict)

    def start(self, name: str, launch: Launch) -> Group:
        """Start a backend's group; raises as `start_spec` does."""
        return self.start_spec(self.spec(name, launch), self.plan.output.folder_of(name, launch))

    def start_spec(self, spec: WorkerSpec, folder: Path) -> Group:
        """Start a group from its spec, its files in `folder`; LaunchFailed if anything is missing for it."""
        backend, config = self.plan.backends[spec.backend], self.plan.config
        try:
            return self.start_group(
                spec,
                world_size=config.device.world_size,
                folder=folder,
                variables=backend.variables_of(spec),
                interpreter=backend.installed.interpreter,
                timeout_s=config.measure.timeout_s,
                nodes=self.nodes and self.nodes.of_group(spec, backend.settings_of(spec), backend.stack),
            )
        except OSError as error:
            raise LaunchFailed("crashed", f"{type(error).__name__}: {error}") from error

    def spec(self, name: str, launch: Launch) -> WorkerSpec:
        """What the ranks of a group are started with.

        Parity is checked at the configured micro-batch, with dropout off. Where training is followed to a
        target, each timed launch has another seed, but begins with the same weights, read from a file.
        """
        spec = self.plan.backends[name].spec
        if launch.in_fp32:
            spec = dataclasses.replace(spec, precision=Precision(name="fp32"))
        if launch.stage is LaunchStage.PARITY:
            saves = name == self.plan.reference and launch == PARITY
            return dataclasses.replace(spec, dropout=False, saves_initial_state=saves)
        config = self.plan.config
        # Rank r uses seed + r, so the seeds of two launches must be at least `world_size` apart.
        apart = config.device.world_size if block_steps(config) else 0
        return dataclasses.replace(
            spec,
            micro_batch=self.micro_batches.get(name, spec.micro_batch),
            seed=spec.seed + apart * launch.number,
        )
