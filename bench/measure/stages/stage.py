"""The base class of a comparison's stages, and what all stages share."""

import dataclasses
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.config.measure import Measure
from bench.errors import LaunchFailed
from bench.launch.messages import Built
from bench.measure.groups.blocks import BlockTimer
from bench.measure.groups.busy_cores import QuietCores
from bench.measure.groups.device_memory import DeviceMemory
from bench.measure.groups.running import OnFailure, RunningGroups, StartGroup
from bench.measure.groups.starting import GroupStarter
from bench.measure.plan.plans import ComparisonPlan, Launch, Output
from bench.measure.record.failures import Failures
from bench.measure.record.ledger import Ledger
from bench.measure.record.progress import ProgressBar
from bench.measure.record.resume import EarlierRun
from bench.results import side_files
from bench.results.atomic import reporting_write_errors
from bench.results.records import BatchTrial
from bench.results.side_files import SideFile

UseTrained = Callable[[RunningGroups, Mapping[str, Sequence[Built]]], None]
"""Uses groups at the end of the parity launch; also gets the `Built` answers of each group."""


@dataclass(kw_only=True)
class Pace:
    """What the parity launch took: from it follows how long the other launches will take.

    Seconds of a backend, as if it had the cores to itself; those of `start` are of all backends.
    """

    starts: list[float] = field(default_factory=list)  # each until all its ranks had connected
    set_ups: list[float] = field(default_factory=list)  # of each backend, until the first step has been taken
    steps: dict[str, float] = field(default_factory=dict)  # a step of each backend

    @property
    def start(self) -> float:
        """Seconds of all starts."""
        return sum(_as_later(self.starts))

    @property
    def step(self) -> float:
        """Seconds of a step; 0 if none was taken."""
        return statistics.mean(self.steps.values() or [0.0])

    @property
    def set_up(self) -> float:
        """Seconds of all that comes before the second step, the first one included."""
        return statistics.mean(_as_later(self.set_ups) or [0.0])

    def warm_up(self, steps: float) -> float:
        """Seconds until a backend has taken `steps` steps after its first."""
        return self.set_up + steps * self.step


def _as_later(seconds: Sequence[float]) -> list[float]:
    """Cap the first duration at the others' mean: in a new clone it includes reading the libraries' files.

    Parity beside an H100 (Intel Xeon, family 6, model 207): 77 s in the first start, 30 s in the others.
    """
    if len(seconds) < 2:
        return list(seconds)
    first, *others = seconds
    return [min(first, statistics.mean(others)), *others]


@dataclass(kw_only=True)
class Run:
    """What all stages of a comparison share."""

    plan: ComparisonPlan
    names: Sequence[str]  # the backends to measure, the reference first; after parity those that passed
    earlier: EarlierRun
    ledger: Ledger
    failures: Failures
    starter: GroupStarter
    timer: BlockTimer
    quiet: QuietCores
    bar: ProgressBar
    clock: Callable[[], float]  # seconds, for the pace
    memory: DeviceMemory  # of the GPUs; and whether groups take turns
    pace: Pace = field(default_factory=Pace)
    # by rank, the numbers of the micro-batches whose losses are compared; the parity launch chooses them
    batches: list[list[int]] = field(default_factory=list)
    # called in the parity launch for every set of groups that has been trained there, while they live
    when_trained: list[UseTrained] = field(default_factory=list)
    starts_after_timing: bool = False  # whether another stage starts groups after the timed launches
    # called where a timed launch of a backend has failed: whether that backend begins anew
    when_failed: list[Callable[[str, Launch, LaunchFailed], bool]] = field(default_factory=list)
    # called while the terminal is free, before what adds to the verdict
    show_verdict: Callable[[], None] | None = None

    @property
    def measure(self) -> Measure:
        """How long and how often is measured."""
        return self.plan.config.measure

    @property
    def output(self) -> Output:
        """Where the comparison writes."""
        return self.plan.output

    def groups(
        self, launch: Launch, on_failure: OnFailure | None = None, start: StartGroup | None = None
    ) -> RunningGroups:
        """The groups of a launch, before any of them is started; by default failures become rows."""
        return RunningGroups(launch, start or self.starter.start, on_failure or self.failures.record)

    def sides(self, names: Sequence[str]) -> list[Sequence[str]]:
        """The backends whose groups may live side by side, set by set, beside the timed launches."""
        together = self.plan.interleaved and not self.plan.on_gpus
        return [names] if together else [[name] for name in names]

    def label(self, launch: Launch) -> str:
        """What messages to the user call a launch."""
        return launch.label(self.measure.launches)

    def timed_names(self) -> list[str]:
        """The backends with timed blocks that ended well."""
        rows = self.ledger.rows()
        timed_well = set(rows.loc[rows["round"].notna() & (rows["status"] == "ok"), "backend"])
        failed = set(rows.loc[rows["round"].isna(), "backend"])
        return [name for name in self.plan.backends if name in timed_well - failed]

    def describe(self, name: str) -> dict[str, Any]:
        """The cells with which a backend's rows begin in every file beside the results."""
        return side_files.describe(self.plan.records[name])

    def lacks(self, kind: SideFile, names: Sequence[str]) -> bool:
        """Whether a file about these backends is to be made: unless a resumed run finds them in it."""
        resumes = self.plan.config.resume
        return bool(names) and (not resumes or kind.lacks(self.output.csv, self.plan.records, names))

    def use_micro_batch(self, name: str, micro_batch: int, *trials: BatchTrial) -> None:
        """From here on, time a backend with `micro_batch` samples per rank, which these trials have found."""
        self.starter.micro_batches[name] = micro_batch
        known = self.ledger.templates[name]
        self.ledger.set_for_later_records(
            name,
            workload=dataclasses.replace(known.workload, micro_batch=micro_batch),
            trials=(*known.trials, *trials),
        )

    def write_beside(self, kind: SideFile, rows: Sequence[Mapping[Any, Any]]) -> None:
        """Replace a file beside the results file by these rows; without any it stays as it is."""
        if rows:
            path = kind.path_of(self.output.csv)
            with reporting_write_errors(path):
                kind.write(path, rows)


class Stage(ABC):
    """One stage. It is not made where it is not wanted."""

    after_verdict = ""
    """What for, such as `to say why`, if no verdict waits for it: then it comes last."""

    before_timing = False  # whether it settles what the timed launches need

    def __init__(self, shared: Run) -> None:
        self.shared = shared

    def is_missing(self) -> bool:
        """Whether an earlier run that is resumed has left something to do, so that stages are run."""
        return False

    def expected(self) -> Mapping[str, int]:
        """How many things of each kind there are to do, for the progress bar."""
        return {}

    def guess(self) -> Mapping[str, float]:
        """How many seconds a thing of each kind takes, by the pace of the parity launch."""
        return {}

    @abstractmethod
    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Do it with these backends, the reference first; those with which the next stages go on."""
