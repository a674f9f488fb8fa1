"""Starts the worker group of one backend in one launch, on this node and on the others."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cluster.group_nodes import GroupNodes
from bench.cluster.node_pool import NodePool
from bench.cluster.remote_ranks import Assignment
from bench.config.training import Precision
from bench.launch.group import Group
from bench.launch.spec import WorkerSpec
from bench.measure.cores import core_shares
from bench.measure.launches import PARITY, Launch
from bench.measure.plans import BackendPlan, LaunchPlan, Output
from bench.results.records import LaunchStage


@dataclass
class GroupStarter:
    """Starts groups; their ranks may not have connected yet."""

    plan: LaunchPlan  # what to launch
    output: Output  # where specs and logs go
    reference: str  # the backend that saves the initial state in the parity launch
    start_group: Callable[..., Group] = Group  # `Group`; tests give their own
    nodes: NodePool | None = None  # the other nodes; None if there are none

    def __post_init__(self) -> None:
        self._micro_batches: dict[str, int] = {}  # of timed launches, where it is not the configured one

    def use_micro_batch(self, name: str, micro_batch: int) -> None:
        """Start this backend's timed launches with so many samples per rank from now on."""
        self._micro_batches[name] = micro_batch

    def start(self, name: str, launch: Launch) -> Group:
        """Start a backend's group.

        Raises:
            LaunchFailed: another node is missing, or could not start its part.
            OSError: there is no process, no socket or no room for the temporary folder.
        """
        return self.start_spec(self.spec(name, launch), self.output.folder_of(name, launch))

    def start_spec(self, spec: WorkerSpec, folder: Path) -> Group:
        """Start a group from its spec, its files in `folder`; raises as `start` does."""
        backend = self.plan.backends[spec.backend]
        assignments = self._assignments(spec, backend)
        return self.start_group(
            spec,
            world_size=self.plan.world_size,
            folder=folder,
            variables=backend.variables_of(spec),
            interpreter=backend.interpreter,
            timeout_s=self.plan.timeout_s,
            other_nodes=GroupNodes(assignments) if assignments else None,
        )

    def spec(self, name: str, launch: Launch) -> WorkerSpec:
        """What the ranks of a group are started with.

        Parity is checked at the configured micro-batch, with dropout off. Where training is followed to a
        target each timed launch is a seed: the weights to begin with are read, and the same all the same.
        """
        spec = self.plan.backends[name].spec
        if launch.in_fp32:
            spec = dataclasses.replace(spec, precision=Precision(name="fp32"))
        if launch.stage is LaunchStage.PARITY:
            saves = name == self.reference and launch == PARITY
            return dataclasses.replace(spec, dropout=False, saves_initial_state=saves)
        return dataclasses.replace(
            spec,
            micro_batch=self._micro_batches.get(name, spec.micro_batch),
            seed=spec.seed + self.plan.seed_step * launch.number,
        )

    def _assignments(self, spec: WorkerSpec, backend: BackendPlan) -> list[Assignment]:
        """What the other nodes start for a group: the same, on their own cores and devices."""
        if self.nodes is None:
            return []
        self.nodes.require()
        return [
            Assignment(
                node=node,
                spec=dataclasses.replace(
                    spec,
                    cores=tuple(self._shares(node.cores, node.near_cores if spec.device_uuids else ())),
                    device_uuids=tuple(node.gpus) if spec.device_uuids else (),
                ),
                settings=backend.settings_of(spec),
                stack=backend.stack,
            )
            for node in self.nodes.members
        ]

    def _shares(self, cores: Sequence[int], near: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        return core_shares(
            cores,
            world_size=self.plan.ranks_per_node,
            threads=self.plan.threads,
            held=self.plan.holds_threads,
            near=near,
        )
