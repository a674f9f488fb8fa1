"""After the timed launches: every backend's step is taken apart, and what its ranks send is counted and
timed.

Predictions for more ranks start from these figures (`bench.analysis.scale`). They come from fresh processes
of their own, and no timed figure depends on them.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.config.choices import COUNT, LADDER
from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.launch.messages import (
    BlockTimed,
    Build,
    Built,
    CollectivesCounted,
    CollectivesTimed,
    CountCollectives,
    PartsTimed,
    TakeFirstStep,
    TimeBlock,
    TimeCollectives,
    TimeParts,
)
from bench.measure.plan.plans import timed
from bench.measure.stages.stage import Stage
from bench.results.collectives import SENT, Collective, TimedCollective
from bench.results.side_files import STEP_PARTS
from bench.results.step_parts import TOGETHER, TimedPart
from bench.statistics.intervals import median_interval

MOST_LAUNCHES, SECONDS = 4, 6.0
"""Fresh processes of each backend, and how long the steps of each should last about."""

WARMUP_STEPS = 4  # before anything is counted or timed
FEWEST_TIMES, MOST_TIMES = 6, 34  # how often each kind of step is timed in a launch, however long it takes
LADDER_BYTES = tuple(2**exponent for exponent in range(12, 29, 2))  # 4 KiB to 256 MiB
MEMORY, PART, GRADIENTS, COLLECTIVE = "memory", "part", "gradients", "collective"  # what a row is about

RUNTIME, PEAK = "runtime", "peak"
"""What a rank had in memory before there was a model, and the most it had while it trained."""


class StepParts(Stage):
    """Takes steps apart, and writes `<comparison>.parts.csv` after every backend.

    A backend that fails, or whose ranks cannot train apart, leaves a row that says so.
    """

    @property
    def _launches(self) -> int:
        """Fresh processes of each backend; one counts as well as several."""
        measure = self.shared.measure
        return 1 if measure.parts == COUNT else max(1, min(measure.launches, MOST_LAUNCHES))

    def is_missing(self) -> bool:
        """Whether a backend with timed blocks, or any if none are timed, has none of this comparison."""
        names = self.shared.timed_names() if self.shared.measure.launches else self.shared.names
        if not names or self.shared.lacks(STEP_PARTS, names):
            return bool(names)
        table = STEP_PARTS.read(STEP_PARTS.path_of(self.shared.output.csv))
        return not (
            table["launch"].max() >= self._launches
            and ((table["name"] == TOGETHER).any() or self.shared.measure.parts == COUNT)
            and ((table["calls"] == 0).any() or self.shared.measure.parts != LADDER)
        )

    def expected(self) -> dict[str, int]:
        """A launch of each backend, as often as is planned."""
        return {"parts": self._launches * len(self.shared.names)}

    def guess(self) -> dict[str, float]:
        """How long a backend takes, by the pace."""
        pace = self.shared.pace
        return {"parts": (pace.start + pace.warm_up(WARMUP_STEPS)) / len(self.shared.names) + SECONDS}

    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Take the steps of these backends apart, unless they have been."""
        if not self.is_missing():
            return names
        rows: list[dict[str, Any]] = []
        for launch in range(1, self._launches + 1):
            for name in names if launch % 2 else reversed(names):
                where = f"parts of a step, {launch}/{self._launches}: {name}"
                with self.shared.bar.doing("parts", where):
                    rows += self._rows_of(name, launch)
                self.shared.write_beside(STEP_PARTS, rows)
        return names

    def _rows_of(self, name: str, launch: int) -> list[dict[str, Any]]:
        """What one launch of a backend shows; what fails last hides nothing that came before."""
        described = self.shared.describe(name) | {"launch": launch, "status": "ok"}
        rows: list[dict[str, Any]] = []
        try:
            spec = self.shared.starter.spec(name, timed(launch))
            folder = self.shared.output.folder / f"parts-{launch}" / name
            with self.shared.starter.start_spec(spec, folder) as group:
                for further in self._requests(group):
                    rows += further
                group.end()
        except LaunchFailed as failure:
            self.shared.bar.print_line(f"parts of a step of {name}: {failure.message}")
            rows.append({"status": failure.status, "message": failure.message})
        return [described | row for row in rows]

    def _requests(self, group: Group) -> Iterable[list[dict[str, Any]]]:
        """Everything that a group is asked for, and the rows that come of it, one after the other."""
        group.connect()
        built = group.request(Build())
        group.request(TakeFirstStep())
        warmed = group.request(TimeBlock(steps=WARMUP_STEPS))
        yield _memory_rows(built, warmed)
        step = max(answer.seconds for answer in warmed) / WARMUP_STEPS
        counted = group.request(CountCollectives())
        calls = _calls(counted)
        if self.shared.measure.parts == COUNT:
            yield _collective_rows(calls, (), ranks=len(counted))
            return
        wanted = list(calls)
        if self.shared.measure.parts == LADDER:
            wanted += [
                Collective(kind=kind, bytes=size, element_bytes=4) for kind in SENT for size in LADDER_BYTES
            ]
        wanted = [collective for collective in dict.fromkeys(wanted) if collective.kind in SENT]
        timed_alone: list[CollectivesTimed] = []
        if len(counted) > 1:
            timed_alone = group.request(TimeCollectives(collectives=wanted))
        yield _collective_rows(calls, timed_alone, ranks=len(counted))
        times = min(MOST_TIMES, max(FEWEST_TIMES, round(SECONDS / step / 3)))
        yield _part_rows(group.request(TimeParts(times=times)))


def _memory_rows(built: Sequence[Built], warmed: Sequence[BlockTimed]) -> list[dict[str, Any]]:
    """What the highest rank holds on its device.

    Torch's allocator counts it on a GPU, the system on a host.
    """
    by_name = {PEAK: [answer.torch_peak_allocated_bytes for answer in warmed]}
    if None in by_name[PEAK]:
        by_name = {
            RUNTIME: [answer.host_runtime_bytes for answer in built],
            PEAK: [answer.host_peak_bytes for answer in warmed],
        }
    return [
        {"item": MEMORY, "name": name, "ranks": len(built), "whole_bytes": max(known)}
        for name, of_ranks in by_name.items()
        if (known := [count for count in of_ranks if count is not None])
    ]


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
            "item": COLLECTIVE,
            "name": collective.kind,
            "ranks": ranks,
            "calls": calls.get(collective, 0),
            "whole_bytes": collective.bytes,
            "element_bytes": collective.element_bytes,
            **_cells(times.get(collective, ())),
        }
        for collective in dict.fromkeys([*calls, *times])
    ]


def _part_rows(ranks_timed: Sequence[PartsTimed]) -> list[dict[str, Any]]:
    """A row for each part, and for each point at which gradients were there on the first rank."""
    times: dict[str, list[TimedPart]] = defaultdict(list)
    for timed_part in itertools.chain(*(rank.parts for rank in ranks_timed)):
        times[timed_part.part].append(timed_part)
    ranks = len(ranks_timed)
    return [
        *({"item": PART, "name": part, "ranks": ranks, **_cells(parts)} for part, parts in times.items()),
        *(
            {"item": GRADIENTS, "ranks": ranks, "elements": point.elements, "share": point.share}
            for point in ranks_timed[0].ready
        ),
    ]


def _cells(on_ranks: Sequence[TimedPart | TimedCollective]) -> dict[str, float]:
    """Seconds of the slowest rank in each repetition: their median with its interval."""
    if not on_ranks:
        return {}
    slowest = [max(seconds) for seconds in zip(*(rank.seconds for rank in on_ranks), strict=True)]
    median, low, high = median_interval(slowest)
    cpu = sum(rank.cpu_seconds for rank in on_ranks) / len(on_ranks)
    return {"seconds": median, "low_s": low, "high_s": high, "cpu_s": cpu}
