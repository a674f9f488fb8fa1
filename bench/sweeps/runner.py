"""Measures the comparisons of a plan one after the other; says what is done, what failed and what is left."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from rich.console import Console

from bench.measure.comparison import measure_comparison
from bench.report.files import reported_folders
from bench.results.atomic import reporting_write_errors
from bench.sweeps import time_limit
from bench.sweeps.comparisons import PlannedComparison
from bench.sweeps.plan_file import Plan
from bench.sweeps.progress import config_to_measure, failed_backends, is_complete
from bench.sweeps.summaries import SUMMARIES
from bench.sweeps.time_limit import OutOfTime, interrupted_after
from bench.tracking.track import track


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """How a call of a sweep ended."""

    total: int  # how many comparisons there are
    files: Sequence[Path]  # the summary that is kept of them
    left: Sequence[PlannedComparison]  # the comparisons that are still to be measured
    failures: dict[str, str]  # of each other comparison that has any, the backends without a result
    untracked: Sequence[str] = ()  # a sentence for each tracker that did not get a comparison of this call

    @property
    def sentence(self) -> str:
        """How many comparisons are complete, how many of them lack a backend's result, what is left."""
        done = f"{self.total - len(self.left)} of {self.total} comparisons are complete"
        without = f", {len(self.failures)} of them without a result of some backend" if self.failures else ""
        left = f"; {len(self.left)} left{_duration(self.left)}" if self.left else ""
        return f"{done}{without}{left}."

    @property
    def lines(self) -> list[str]:
        """Each comparison with a failure and each that is left."""
        failed = [f"- {stem}: {words}" for stem, words in self.failures.items()]
        return [*failed, *(f"- left: {one}" for one in self.left)]


@dataclass
class Sweep:
    """One call of a sweep."""

    plan: Plan  # says what is skipped and which summary is kept
    comparisons: Sequence[PlannedComparison]  # of the plan, in the order in which they are measured
    _: KW_ONLY
    # models of the plan that this machine cannot train, and why
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    deadline: float  # the second of `clock` at which the call must have ended; infinite for no limit
    console: Console  # where progress is shown
    clock: Callable[[], float] = time.monotonic  # seconds; tests give their own

    def __post_init__(self) -> None:
        self.summary = SUMMARIES[self.plan.summary]
        self.kept: Sequence[Path] = ()

    def run(self) -> SweepOutcome:
        """Measure what is missing and fits into the call.

        The first comparison is begun in any case: one that never fits gets on by what each call adds.
        """
        missing = self.announce()
        began, measured_now = self.clock(), 0
        untracked: list[str] = []
        for number, comparison in enumerate(missing, start=1):
            remaining = self.deadline - time_limit.SECONDS_TO_END - self.clock()
            if remaining <= 0 or (number > 1 and remaining < comparison.expected_s):
                break
            self.console.rule(f"{comparison}, {number} of {len(missing)}", style="none")
            try:
                with interrupted_after(remaining):
                    self._measure(comparison)
            except OutOfTime:
                self._say(f"stopped in time: {comparison.csv} keeps its complete rounds")
                break
            measured_now = number
            untracked += self._track(comparison)  # not within the limit: the next call would not do it
            if self.summary.after_each:
                self._update_summary()
        if not (self.summary.after_each and measured_now):
            self._update_summary()
        self._compare_times(missing[:measured_now], self.clock() - began)
        return self._outcome(missing[measured_now:], untracked)

    def _is_skipped(self, comparison: PlannedComparison) -> bool:
        return self.plan.skip_complete and is_complete(comparison)

    def _measure(self, comparison: PlannedComparison) -> None:
        """Measure one comparison, or what is missing of it; a launch that fails leaves a row."""
        config = config_to_measure(comparison) if self.plan.skip_complete else comparison.config
        measure_comparison(config, comparison.stem, comparison.overrides)

    def _track(self, comparison: PlannedComparison) -> Sequence[str]:
        outcome = track(comparison.csv, comparison.config.track)
        for sentence in (*outcome.logged, *outcome.failed):
            self._say(sentence)
        return outcome.failed

    def _update_summary(self) -> None:
        """Rebuild the summary, if there is anything to sum up."""
        if not any(one.csv.exists() for one in self.comparisons):
            return
        config = self.comparisons[0].config
        results_dir = Path(config.results_dir)
        _, out_dir = reported_folders(results_dir, Path(config.reports_dir))
        with reporting_write_errors(out_dir):
            self.kept, refused = self.summary.write(results_dir, out_dir)
        for refusal in refused:
            self._say(refusal)

    def announce(self) -> Sequence[PlannedComparison]:
        """List what is to be measured, before anything is; that list."""
        missing = [one for one in self.comparisons if not self._is_skipped(one)]
        if missing:
            self._say(
                f"to measure, {len(missing)} of {len(self.comparisons)} comparisons{_duration(missing)}:"
            )
            self._list(missing)
        for model, reason in self.unmeasured.items():
            self._say(f"not measured: {model}: {reason}")
        return missing

    def _compare_times(self, measured: Sequence[PlannedComparison], seconds: float) -> None:
        """Say how long it took, where it was said how long it would take."""
        if measured and all(one.expected_s for one in measured):
            expected = math.fsum(one.expected_s for one in measured)
            self._say(
                f"announced for {len(measured)} comparisons: {expected / 60:.0f} minutes; they took "
                f"{seconds / 60:.0f}"
            )

    def _list(self, comparisons: Sequence[PlannedComparison]) -> None:
        for one in comparisons:
            minutes = f", about {one.expected_s / 60:.0f} minutes" if one.expected_s else ""
            self._say(f"  {one}: {one.model}, batch {one.batch}{minutes}")

    def _outcome(self, left: Sequence[PlannedComparison], untracked: Sequence[str]) -> SweepOutcome:
        """How the call ended."""
        done = [one for one in self.comparisons if one not in left]
        return SweepOutcome(
            total=len(self.comparisons),
            files=self.kept[:2],
            left=left,
            untracked=untracked,
            failures={one.stem: words for one in done if (words := failed_backends(one))},
        )

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)


def _duration(comparisons: Sequence[PlannedComparison]) -> str:
    """`, about 12 minutes`, or nothing if the plan does not say of each how long it takes."""
    seconds = [one.expected_s for one in comparisons]
    return f", about {math.fsum(seconds) / 60:.0f} minutes" if all(seconds) else ""
