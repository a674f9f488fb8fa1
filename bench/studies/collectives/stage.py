"""After the timed launches: what the ranks of every backend send each other is counted and timed.

That takes fresh processes of its own, and no timed figure depends on it.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.config.choices import COUNT
from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.launch.messages import Build, TakeFirstStep, TimeBlock
from bench.measure.plan.plans import timed
from bench.measure.stages.stage import Stage
from bench.results.collectives import SENT, Collective, TimedCollective
from bench.statistics.intervals import median_interval
from bench.studies.collectives.messages import (
    CollectivesCounted,
    CollectivesTimed,
    CountCollectives,
    TimeCollectives,
)
from bench.studies.collectives.table import TABLE

MAX_LAUNCHES = 4  # fresh processes of each backend
WARMUP_STEPS = 4  # before anything is counted or timed
LADDER_S = 20.0  # how long the timing of all takes, about
LADDER_BYTES = tuple(2**exponent for exponent in range(12, 29, 2))  # 4 KiB to 256 MiB


class Collectives(Stage):
    """Counts collectives, times them if asked to, and writes `<comparison>.collectives.csv`.

    A backend that fails leaves a row that says so.
    """

    @property
    def _counts_only(self) -> bool:
        return self.shared.measure.collectives == COUNT

    @property
    def _launches(self) -> int:
        """Fresh processes of each backend; one counts as well as several."""
        return 1 if self._counts_only else max(1, min(self.shared.measure.launches, MAX_LAUNCHES))

    def is_missing(self) -> bool:
        """Whether a backend with timed blocks, or any if none are timed, has none of this comparison."""
        names = self.shared.timed_names() if self.shared.measure.launches else self.shared.names
        if not names or self.shared.lacks(TABLE, names):
            return bool(names)
        table = TABLE.read(TABLE.path_of(self.shared.output.csv))
        was_timed = (table["calls"] == 0).any() or (table["ranks"] == 1).any()  # one rank has nothing to time
        return not (table["launch"].max() >= self._launches and (was_timed or self._counts_only))

    def expected(self) -> dict[str, int]:
        """A launch of each backend, as often as is planned."""
        return {"collectives": self._launches * len(self.shared.names)}

    def guess(self) -> dict[str, float]:
        """How long a backend takes, by the pace."""
        pace = self.shared.pace
        start = (pace.start + pace.warm_up(WARMUP_STEPS)) / len(self.shared.names)
        return {"collectives": start + (0.0 if self._counts_only else LADDER_S)}

    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Count the collectives of these backends, unless they have been."""
        if not self.is_missing():
            return names
        rows: list[dict[str, Any]] = []
        for launch in range(1, self._launches + 1):
            for name in names if launch % 2 else reversed(names):
                where = f"collectives, {launch}/{self._launches}: {name}"
                with self.shared.bar.doing("collectives", where):
                    rows += self._rows_of(name, launch)
                self.shared.write_beside(TABLE, rows)
        return names

    def _rows_of(self, name: str, launch: int) -> list[dict[str, Any]]:
        """What one launch of a backend shows; what fails last hides nothing that came before."""
        described = self.shared.describe(name) | {"launch": launch, "status": "ok"}
        rows: list[dict[str, Any]] = []
        try:
            spec = self.shared.starter.spec(name, timed(launch))
            folder = self.shared.output.folder / f"collectives-{launch}" / name
            with self.shared.starter.start_spec(spec, folder) as group:
                for further in self._requests(group):
                    rows = further
                group.end()
        except LaunchFailed as failure:
            self.shared.bar.print_line(f"collectives of {name}: {failure.message}")
            rows = [*rows, {"status": failure.status, "message": failure.message}]
        return [described | row for row in rows]

    def _requests(self, group: Group) -> Iterable[list[dict[str, Any]]]:
        """The rows once collectives are counted, and once they are timed, too."""
        group.connect()
        group.request(Build())
        group.request(TakeFirstStep())
        group.request(TimeBlock(steps=WARMUP_STEPS))
        counted = group.request(CountCollectives())
        calls = _calls(counted)
        yield _collective_rows(calls, (), ranks=len(counted))
        if self._counts_only or len(counted) == 1:
            return
        ladder = [
            Collective(kind=kind, bytes=size, element_bytes=4) for kind in SENT for size in LADDER_BYTES
        ]
        wanted = [collective for collective in dict.fromkeys([*calls, *ladder]) if collective.kind in SENT]
        timed_alone = group.request(TimeCollectives(collectives=wanted))
        yield _collective_rows(calls, timed_alone, ranks=len(counted))


def _calls(counted: Sequence[CollectivesCounted]) -> dict[Collective, int]:
    """Calls in a step, of the rank that has most: a broadcast's or a reduce's are the same on all."""
    calls: dict[Collective, int] = {}
    for sent in itertools.chain(*(rank.counted for rank in counted)):
        calls[sent.collective] = max(sent.calls, calls.get(sent.collective, 0))
    return calls


def _collective_rows(
    calls: Mapping[Collective, int], ranks_timed: Sequence[CollectivesTimed], *, ranks: int
) -> list[dict[str, Any]]:
    """A row for each collective that was counted or timed."""
    times: dict[Collective, list[TimedCollective]] = defaultdict(list)
    for timed_alone in itertools.chain(*(rank.timed for rank in ranks_timed)):
        times[timed_alone.collective].append(timed_alone)
    return [
        {
            "name": collective.kind,
            "ranks": ranks,
            "calls": calls.get(collective, 0),
            "whole_bytes": collective.bytes,
            "element_bytes": collective.element_bytes,
            **_cells(times.get(collective, ())),
        }
        for collective in dict.fromkeys([*calls, *times])
    ]


def _cells(on_ranks: Sequence[TimedCollective]) -> dict[str, float]:
    """Seconds of the slowest rank in each repetition: their median with its interval."""
    if not on_ranks:
        return {}
    slowest = [max(seconds) for seconds in zip(*(rank.seconds for rank in on_ranks), strict=True)]
    median, low, high = median_interval(slowest)
    cpu = sum(rank.cpu_seconds for rank in on_ranks) / len(on_ranks)
    return {"seconds": median, "low_s": low, "high_s": high, "cpu_s": cpu}


STAGE = Collectives
