"""The micro-batch of each backend whose largest one is searched for, and what has been tried."""

import dataclasses
from collections import Counter
from dataclasses import dataclass, field

from bench.errors import LaunchFailed
from bench.measure.groups.starting import GroupStarter
from bench.measure.plan.launches import Launch
from bench.measure.record.ledger import Ledger
from bench.results.arithmetic import search_resolution
from bench.results.records import BatchTrial, LaunchStage

MOST_STEPS_DOWN = 3
"""How often a backend whose timed launch runs out of memory after all goes on with a smaller micro-batch."""


@dataclass
class MicroBatches:
    """Lets timed launches use the micro-batches that a search has found, and steps down from them.

    Attributes:
        steps_down: how often each backend has gone on with a smaller micro-batch.
    """

    starter: GroupStarter
    ledger: Ledger
    known: dict[str, int]  # by backend, as this run or an earlier one has found them
    steps_down: Counter[str] = field(default_factory=Counter)

    def use(self, name: str, micro_batch: int) -> None:
        """Time this backend with so many samples per rank."""
        self.known[name] = self.starter.micro_batches[name] = micro_batch
        workload = dataclasses.replace(self.ledger.templates[name].workload, micro_batch=micro_batch)
        self.ledger.set_for_later_records(name, workload=workload)

    def add_trials(self, name: str, *trials: BatchTrial) -> None:
        """Put further trials into every record of this backend from here on."""
        earlier = self.ledger.templates[name].trials
        self.ledger.set_for_later_records(name, trials=(*earlier, *trials))

    def step_down(self, name: str, launch: Launch, failure: LaunchFailed) -> str:
        """After a timed launch that ran out of memory, go on with a smaller micro-batch where there is one.

        All that was measured of the backend goes, since a number counts only for a size at which whole
        launches ran.

        Returns:
            What is done, in words; empty if nothing can be.
        """
        micro_batch = self.known.get(name)
        if failure.status != "oom" or launch.stage is not LaunchStage.TIMED or micro_batch is None:
            return ""
        smaller = next_smaller(micro_batch)
        if not smaller or self.steps_down[name] >= MOST_STEPS_DOWN:
            return ""
        self.steps_down[name] += 1
        self.ledger.forget(name)
        message = f"launch {launch.number}: {failure.message}"
        self.add_trials(name, BatchTrial(micro_batch=micro_batch, fits=False, message=message))
        self.use(name, smaller)
        return (
            f"micro-batch {micro_batch} did not last a whole launch ({failure.message}); "
            f"measured anew with {smaller}"
        )


def next_smaller(micro_batch: int) -> int:
    """The next smaller micro-batch to go on with; 0 if there is none."""
    return micro_batch - search_resolution(micro_batch)
