"""After the timed launches: every backend's step is taken apart, and what its ranks send is counted and
timed.

Predictions for more ranks start from these figures (`bench.analysis.scale`). They come from fresh processes
of their own, and no timed figure depends on them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from bench.measure.groups import GroupStarter
from bench.measure.launches import timed
from bench.measure.plans import Output, PartsPlan
from bench.measure.progress import ProgressBar
from bench.results import side_files
from bench.results.atomic import reporting_write_errors
from bench.results.collectives import SENT, Collective, TimedCollective
from bench.results.records import Record
from bench.results.side_files import STEP_PARTS
from bench.results.step_parts import TOGETHER, TimedPart
from bench.statistics.intervals import median_interval

WARMUP_STEPS = 4
"""Before anything is counted or timed."""

FEWEST_TIMES, MOST_TIMES = 6, 34
"""That each kind of step is timed in a launch, however long it takes."""

LADDER_BYTES = tuple(2**exponent for exponent in range(12, 29, 2))
"""4 KiB to 256 MiB."""

MEMORY, PART, GRADIENTS, COLLECTIVE = "memory", "part", "gradients", "collective"
"""What a row is about."""

RUNTIME, PEAK = "runtime", "peak"
"""Of a rank's memory: what it had before there was a model; and the most it had while it trained, all of
it."""


@dataclass
class StepParts:
    """Takes steps apart, and writes `<comparison>.parts.csv` after every backend.

    A backend that fails, or whose ranks cannot train apart, leaves a row that says so.
    """

    plan: PartsPlan | None
    output: Output
    records: Mapping[str, Record]
    starter: GroupStarter
    bar: ProgressBar

    def is_missing(self, names: Sequence[str]) -> bool:
        """Whether it is wanted and one of these backends has none, or one of another comparison."""
        path = STEP_PARTS.path_of(self.output.csv)
        if self.plan is None or not path.exists():
            return self.plan is not None
        table = STEP_PARTS.read(path)
        has_all = (
            table["launch"].max() >= self.plan.launches
            and ((table["name"] == TOGETHER).any() or not self.plan.timed)
            and ((table["calls"] == 0).any() or not self.plan.ladder)
        )
        return not (has_all and side_files.is_of(table, self.records, names))

    def planned(self, backends: int) -> dict[str, int]:
        """How many things of each kind there are to do, for the progress bar."""
        return {} if self.plan is None else {"parts": self.plan.launches * backends}

    def run(self, names: Sequence[str]) -> None:
        """Take the steps of these backends apart, if that is wanted."""
        if self.plan is None:
            return
        rows: list[dict[str, Any]] = []
        path = STEP_PARTS.path_of(self.output.csv)
        for launch in range(1, self.plan.launches + 1):
            for name in names if launch % 2 else reversed(names):
                with self.bar.doing("parts", f"parts of a step, {launch}/{self.plan.launches}: {name}"):
                    rows += self._rows_of(name, launch)
                with reporting_write_errors(path):
                    STEP_PARTS.write(path, rows)

    def _rows_of(self, name: str, launch: int) -> list[dict[str, Any]]:
        """What one launch of a backend shows; what fails last hides nothing that came before."""
        described = side_files.describe(self.records[name]) | {"launch": launch, "status": "ok"}
        found: list[dict[str, Any]] = []
        try:
            spec = self.starter.spec(name, timed(launch))
            folder = self.output.folder / f"parts-{launch}" / name
            with self.starter.start_spec(spec, folder) as group:
                for rows in self._requests(group):
                    found += rows
                group.end()
        except (LaunchFailed, OSError) as failure:
            status = failure.status if isinstance(failure, LaunchFailed) else "crashed"
            message = failure.message if isinstance(failure, LaunchFailed) else str(failure)
            self.bar.print_line(f"parts of a step of {name}: {message}")
            found.append({"status": status, "message": message})
        return [described | row for row in found]

    def _requests(self, group: Group) -> Iterable[list[dict[str, Any]]]:
        """Everything that a group is asked for, and the rows that come of it, one after the other."""
        assert self.plan is not None, "`run` has seen to it"
        group.connect()
        built = group.request(Build())
        group.request(TakeFirstStep())
        warmed = group.request(TimeBlock(steps=WARMUP_STEPS))
        yield _memory_rows(built, warmed)
        step = max(answer.seconds for answer in warmed) / WARMUP_STEPS
        counted = group.request(CountCollectives())
        calls = _calls(counted)
        if not self.plan.timed:
            yield _collective_rows(calls, (), ranks=len(counted))
            return
        wanted = list(calls)
        if self.plan.ladder:
            wanted += [
                Collective(kind=kind, bytes=size, element_bytes=4) for kind in SENT for size in LADDER_BYTES
            ]
        wanted = [one for one in dict.fromkeys(wanted) if one.kind in SENT]
        timed_alone: list[CollectivesTimed] = []
        if len(counted) > 1:
            timed_alone = group.request(TimeCollectives(collectives=wanted))
        yield _collective_rows(calls, timed_alone, ranks=len(counted))
        times = min(MOST_TIMES, max(FEWEST_TIMES, round(self.plan.seconds / step / 3)))
        yield _part_rows(group.request(TimeParts(times=times)))


def _memory_rows(built: Sequence[Built], warmed: Sequence[BlockTimed]) -> list[dict[str, Any]]:
    """What the highest rank holds on its device: torch's allocator counts it on a GPU, the system on a
    host."""
    on_gpu = [one.torch_peak_allocated_bytes for one in warmed]
    figures = (
        {PEAK: on_gpu}
        if None not in on_gpu
        else {
            RUNTIME: [one.host_runtime_bytes for one in built],
            PEAK: [one.host_peak_bytes for one in warmed],
        }
    )
    return [
        {"item": MEMORY, "name": name, "ranks": len(built), "whole_bytes": max(known)}
        for name, each in figures.items()
        if (known := [one for one in each if one is not None])
    ]


def _calls(counted: Sequence[CollectivesCounted]) -> dict[Collective, int]:
    """Calls in a step, of the rank that has most: a broadcast's or a reduce's are the same on all."""
    calls: dict[Collective, int] = {}
    for rank in counted:
        for one in rank.counted:
            calls[one.collective] = max(one.calls, calls.get(one.collective, 0))
    return calls


def _collective_rows(
    calls: Mapping[Collective, int], ranks_timed: Sequence[CollectivesTimed], *, ranks: int
) -> list[dict[str, Any]]:
    """A row for each collective that was counted or timed."""
    times = _by(lambda one: one.collective, (one for rank in ranks_timed for one in rank.timed))
    return [
        {
            "item": COLLECTIVE,
            "name": one.kind,
            "ranks": ranks,
            "calls": calls.get(one, 0),
            "whole_bytes": one.bytes,
            "element_bytes": one.element_bytes,
            **_cells(times.get(one, ())),
        }
        for one in dict.fromkeys([*calls, *times])
    ]


def _part_rows(ranks_timed: Sequence[PartsTimed]) -> list[dict[str, Any]]:
    """A row for each part, and for each point at which gradients were there on the first rank."""
    times = _by(lambda one: one.part, (one for rank in ranks_timed for one in rank.parts))
    ranks = len(ranks_timed)
    return [
        *({"item": PART, "name": part, "ranks": ranks, **_cells(each)} for part, each in times.items()),
        *(
            {"item": GRADIENTS, "ranks": ranks, "elements": one.elements, "share": one.share}
            for one in ranks_timed[0].ready
        ),
    ]


def _by(key: Callable[[Any], Any], timed_on_ranks: Iterable[Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for one in timed_on_ranks:
        found[key(one)].append(one)
    return found


def _cells(on_ranks: Sequence[TimedPart | TimedCollective]) -> dict[str, float]:
    """Seconds of the slowest rank in each repetition: their median with its interval."""
    if not on_ranks:
        return {}
    slowest = [max(each) for each in zip(*(one.seconds for one in on_ranks), strict=True)]
    median, low, high = median_interval(slowest)
    cpu = sum(one.cpu_seconds for one in on_ranks) / len(on_ranks)
    return {"seconds": median, "low_s": low, "high_s": high, "cpu_s": cpu}
