"""Starts the worker group of one backend in one launch, on this node and on the others."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.cluster.group_nodes import GroupNodes
from bench.cluster.node_pool import NodePool
from bench.cluster.remote_ranks import Assignment
from bench.config.training import Precision
from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.launch.spec import WorkerSpec
from bench.measure.plan.cores import core_shares
from bench.measure.plan.launches import PARITY, Launch
from bench.measure.plan.plans import ComparisonPlan
from bench.results.records import LaunchStage


@dataclass
class GroupStarter:
    """Starts groups; their ranks may not have connected yet."""

    plan: ComparisonPlan
    start_group: Callable[..., Group] = Group  # `Group`; tests give their own
    nodes: NodePool | None = None  # the other nodes; None if there are none
    # of timed launches by backend, in samples per rank, where it is not the configured one
    micro_batches: dict[str, int] = field(default_factory=dict)

    def start(self, name: str, launch: Launch) -> Group:
        """Start a backend's group; raises as `start_spec` does."""
        return self.start_spec(self.spec(name, launch), self.plan.output.folder_of(name, launch))

    def start_spec(self, spec: WorkerSpec, folder: Path) -> Group:
        """Start a group from its spec, its files in `folder`.

        Raises:
            LaunchFailed: there is no process, no socket or no room for the temporary folder; another node is
                missing, or could not start its part.
        """
        backend, launching = self.plan.backends[spec.backend], self.plan.launching
        assignments = self._assignments(spec)
        try:
            return self.start_group(
                spec,
                world_size=launching.world_size,
                folder=folder,
                variables=backend.variables_of(spec),
                interpreter=backend.interpreter,
                timeout_s=launching.timeout_s,
                other_nodes=GroupNodes(assignments) if assignments else None,
            )
        except OSError as error:
            raise LaunchFailed("crashed", f"{type(error).__name__}: {error}") from error

    def spec(self, name: str, launch: Launch) -> WorkerSpec:
        """What the ranks of a group are started with.

        Parity is checked at the configured micro-batch, with dropout off. Where training is followed to a
        target each timed launch is a seed: the weights to begin with are read, and the same all the same.
        """
        spec = self.plan.backends[name].spec
        if launch.in_fp32:
            spec = dataclasses.replace(spec, precision=Precision(name="fp32"))
        if launch.stage is LaunchStage.PARITY:
            saves = name == self.plan.reference and launch == PARITY
            return dataclasses.replace(spec, dropout=False, saves_initial_state=saves)
        return dataclasses.replace(
            spec,
            micro_batch=self.micro_batches.get(name, spec.micro_batch),
            seed=spec.seed + self.plan.launching.seed_step * launch.number,
        )

    def _assignments(self, spec: WorkerSpec) -> list[Assignment]:
        """What the other nodes start for a group: the same, on their own cores and devices."""
        if self.nodes is None:
            return []
        self.nodes.require()
        backend = self.plan.backends[spec.backend]
        return [
            Assignment(
                node=node,
                spec=dataclasses.replace(
                    spec,
                    cores=tuple(
                        core_shares(
                            node.cores,
                            world_size=self.plan.launching.world_size // spec.nnodes,
                            threads=spec.threads,
                            held=spec.holds_threads,
                            near=node.near_cores if spec.device_uuids else (),
                        )
                    ),
                    device_uuids=tuple(node.gpus) if spec.device_uuids else (),
                ),
                settings=backend.settings_of(spec),
                stack=backend.stack,
            )
            for node in self.nodes.members
        ]
