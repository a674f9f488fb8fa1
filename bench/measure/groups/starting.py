"""Starts the worker group of one backend in one launch, on this node and on the others."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.cluster.node_pool import NodePool
from bench.cluster.remote_ranks import nodes_of_group
from bench.config.training import Precision
from bench.errors import LaunchFailed
from bench.launch.group import Group, Nodes
from bench.launch.spec import WorkerSpec
from bench.measure.plan.cores import core_shares
from bench.measure.plan.plans import PARITY, ComparisonPlan, Launch
from bench.results.records import LaunchStage


@dataclass
class GroupStarter:
    """Starts groups; their ranks may not have connected yet."""

    plan: ComparisonPlan
    start_group: Callable[..., Group] = Group  # `Group`; tests give their own
    nodes: NodePool | None = None  # the other nodes; None if there are none
    # of timed launches by backend, in samples per rank, as a search has found them; else the configured one
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
        backend, config = self.plan.backends[spec.backend], self.plan.config
        try:
            return self.start_group(
                spec,
                world_size=config.device.world_size,
                folder=folder,
                variables=backend.variables_of(spec),
                interpreter=backend.installed.interpreter,
                timeout_s=config.measure.timeout_s,
                nodes=self._nodes(spec),
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
        apart = config.device.world_size if config.measure.evaluate_every is not None else 0
        return dataclasses.replace(
            spec,
            micro_batch=self.micro_batches.get(name, spec.micro_batch),
            seed=spec.seed + apart * launch.number,
        )

    def _nodes(self, spec: WorkerSpec) -> Nodes | None:
        """The other nodes start the same, on their own cores and devices; None if there are none."""
        if self.nodes is None:
            return None
        self.nodes.require()
        backend = self.plan.backends[spec.backend]
        ranks_per_node = self.plan.config.device.ranks_per_node
        specs = []
        for node in self.nodes.members:
            cores = core_shares(
                node.greeting.cores,
                world_size=ranks_per_node,
                threads=spec.threads,
                held=spec.holds_threads,
                near=node.greeting.near_cores if spec.device_uuids else (),
            )
            uuids = tuple(node.greeting.gpus) if spec.device_uuids else ()
            specs.append((node, dataclasses.replace(spec, cores=tuple(cores), device_uuids=uuids)))
        settings = backend.settings_of(spec)
        return nodes_of_group(specs, settings=settings, stack=backend.stack, ranks_per_node=ranks_per_node)
