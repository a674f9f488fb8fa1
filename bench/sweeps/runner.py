"""Measures the comparisons of a plan one after the other; says what is done, what failed and what is left."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from bench.errors import UserError
from bench.measure.comparison import measure_comparison
from bench.report.build import render_report, write_claims, write_methods, write_support
from bench.report.files import reported_folders
from bench.results.atomic import reporting_write_errors
from bench.sweeps.comparisons import PlannedComparison, config_to_measure, failed_backends, is_complete
from bench.sweeps.plan_file import Plan
from bench.tracking.track import track

SECONDS_TO_END = 20  # seconds of a limited call that are kept for ending what runs and for the summary

QUICK_SUMMARIES = {"claims": write_claims, "methods": write_methods, "support": write_support}
"""Summaries that are rebuilt in place of the machine's report."""


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
        return [*failed, *(f"- left: {comparison}" for comparison in self.left)]


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

    def announce(self) -> Sequence[PlannedComparison]:
        """List what is to be measured, before anything is; that list."""
        skip = self.plan.skip_complete
        missing = [planned for planned in self.comparisons if not (skip and is_complete(planned))]
        if missing:
            share = f"{len(missing)} of {len(self.comparisons)} comparisons"
            self._say(f"to measure, {share}{_duration(missing)}:")
        for comparison in missing:
            minutes = _duration([comparison])
            self._say(f"  {comparison}: {comparison.model}, batch {comparison.batch}{minutes}")
        for model, reason in self.unmeasured.items():
            self._say(f"not measured: {model}: {reason}")
        return missing

    def run(self) -> SweepOutcome:
        """Measure what is missing and fits into the call.

        The first comparison is begun in any case: one that never fits gets on by what each call adds.
        """
        missing = self.announce()
        measured = 0
        untracked: list[str] = []
        for number, comparison in enumerate(missing, start=1):
            remaining = self.deadline - SECONDS_TO_END - self.clock()
            if remaining <= 0 or (number > 1 and remaining < comparison.expected_s):
                break
            self.console.rule(f"{comparison}, {number} of {len(missing)}", style="none")
            try:
                with interrupted_after(remaining):
                    skip = self.plan.skip_complete
                    config = config_to_measure(comparison) if skip else comparison.config
                    measure_comparison(config, comparison.stem)
            except OutOfTime:
                self._say(f"stopped in time: {comparison.csv} keeps its complete rounds")
                break
            measured = number
            # Without a limit: no later call would.
            failed = track(comparison.csv, comparison.config.track, self._say)
            for sentence in failed:
                self._say(sentence)
            untracked += failed
        left = missing[measured:]
        done = [comparison for comparison in self.comparisons if comparison not in left]
        return SweepOutcome(
            total=len(self.comparisons),
            files=self._update_summary()[:2],
            left=left,
            untracked=untracked,
            failures={
                comparison.stem: words for comparison in done if (words := failed_backends(comparison))
            },
        )

    def _update_summary(self) -> Sequence[Path]:
        """Rebuild the summary, if there is anything to sum up; its files, the most important first."""
        if not any(comparison.csv.exists() for comparison in self.comparisons):
            return ()
        config = self.comparisons[0].config
        results_dir = Path(config.results_dir)
        machine_results, out_dir = reported_folders(results_dir, Path(config.reports_dir))
        files: Sequence[Path]
        with reporting_write_errors(out_dir):
            if write := QUICK_SUMMARIES.get(self.plan.summary):
                files, refused = write(results_dir, out_dir)
            else:
                rendered = render_report(machine_results, out_dir)
                files, refused = rendered.written, rendered.refused
        for refusal in refused:
            self._say(refusal)
        return files

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)


def _duration(comparisons: Sequence[PlannedComparison]) -> str:
    """`, about 12 minutes`, or nothing if the plan does not say of each how long it takes."""
    seconds = [comparison.expected_s for comparison in comparisons]
    return f", about {math.fsum(seconds) / 60:.0f} minutes" if all(seconds) else ""


class OutOfTime(KeyboardInterrupt):
    """The time of the call is over, but for what it takes to tidy up."""


def parse_minutes(text: str | None) -> float:
    """The seconds that a call may take; infinite if nothing is said. Refuses what is too little, or none."""
    if text is None:
        return math.inf
    try:
        seconds = 60 * float(text)
    except ValueError:
        seconds = 0.0
    if not SECONDS_TO_END < seconds < math.inf:
        raise UserError(f"minutes={text} must be a number above {SECONDS_TO_END / 60:.2f}.")
    return seconds


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise OutOfTime within, when so many seconds have passed."""
    if math.isinf(seconds):
        yield
        return

    def interrupt(_: int, __: object) -> NoReturn:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
