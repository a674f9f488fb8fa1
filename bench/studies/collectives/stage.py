"""After the timed launches, in fresh processes: what the ranks of every backend send is counted."""

import itertools
from collections.abc import Sequence
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.messages import Build, TakeFirstStep, TimeBlock
from bench.measure.plan.plans import timed
from bench.measure.stages.stage import Stage
from bench.studies.collectives.messages import CollectivesCounted, CountCollectives
from bench.studies.collectives.sent import Collective
from bench.studies.collectives.table import TABLE

WARMUP_STEPS = 4  # before anything is counted


class Collectives(Stage):
    """Counts collectives, and writes `<comparison>.collectives.csv`; a failure leaves a row."""

    def is_missing(self) -> bool:
        """Whether a backend with timed blocks (any backend if none are timed) has no counts in the file."""
        names = self.shared.timed_names() if self.shared.measure.launches else self.shared.names
        return bool(names) and self.shared.lacks(TABLE, names)

    def expected(self) -> dict[str, int]:
        """A launch of each backend."""
        return {"collectives": len(self.shared.names)}

    def guess(self) -> dict[str, float]:
        """How long a backend takes, by the pace."""
        pace = self.shared.pace
        return {"collectives": pace.start / len(self.shared.names) + pace.warm_up(WARMUP_STEPS)}

    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Count the collectives of these backends, unless they have been."""
        if not self.is_missing():
            return names
        rows: list[dict[str, Any]] = []
        for name in names:
            with self.shared.bar.doing("collectives", f"collectives: {name}"):
                rows += self._rows_of(name)
            self.shared.write_beside(TABLE, rows)
        return names

    def _rows_of(self, name: str) -> list[dict[str, Any]]:
        """The rows of a backend's launch, or one row that says how it failed."""
        described = self.shared.describe(name) | {"launch": 1, "status": "ok"}
        try:
            spec = self.shared.starter.spec(name, timed(1))
            folder = self.shared.output.folder / "collectives-1" / name
            with self.shared.starter.start_spec(spec, folder) as group:
                group.connect()
                group.request(Build())
                group.request(TakeFirstStep())
                group.request(TimeBlock(steps=WARMUP_STEPS))
                counted = group.request(CountCollectives())
                group.end()
        except LaunchFailed as failure:
            self.shared.bar.print_line(f"collectives of {name}: {failure.message}")
            return [described | {"status": failure.status, "message": failure.message}]
        return [
            {
                **described,
                "name": collective.kind,
                "ranks": len(counted),
                "calls": calls,
                "whole_bytes": collective.bytes,
                "element_bytes": collective.element_bytes,
            }
            for collective, calls in _calls(counted).items()
        ]


def _calls(counted: Sequence[CollectivesCounted]) -> dict[Collective, int]:
    """Calls in a step, of the rank that has most: a broadcast's or a reduce's are the same on all."""
    calls: dict[Collective, int] = {}
    for collective, of_rank in itertools.chain(*(rank.counted for rank in counted)):
        calls[collective] = max(of_rank, calls.get(collective, 0))
    return calls


STAGE = Collectives
