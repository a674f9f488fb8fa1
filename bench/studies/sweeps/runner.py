"""Measures the comparisons of a plan one after the other; says what is to be done and what failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.measure.comparison import measure_comparison
from bench.plugins.tracking.track import track
from bench.report.build import render_report
from bench.report.content.study_pages import write_page
from bench.report.files import files_of, reported_folders
from bench.results.atomic import reporting_write_errors
from bench.studies.sweeps.comparisons import PlannedComparison, failed_backends, is_complete
from bench.studies.sweeps.plan_file import Plan
from bench.study import load_parts


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """How a sweep ended."""

    total: int  # how many comparisons there are
    files: Sequence[Path]  # the summary that is kept of them
    failures: dict[str, str]  # of each comparison that has any, the backends without a result
    untracked: Sequence[str]  # a sentence for each tracker that did not get a comparison

    @property
    def sentence(self) -> str:
        """How many comparisons are complete, and how many of them lack a backend's result."""
        without = f", {len(self.failures)} of them without a result of some backend" if self.failures else ""
        return f"{self.total} comparisons are complete{without}."


def run_sweep(plan: Plan, comparisons: Sequence[PlannedComparison]) -> SweepOutcome:
    """List what is to be measured, measure it, and rebuild the plan's summary."""
    console = Console(stderr=True, highlight=False)

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    missing = [planned for planned in comparisons if not (plan.skip_complete and is_complete(planned))]
    say(f"to measure, {len(missing)} of {len(comparisons)} comparisons:")
    for comparison in missing:
        say(f"  {comparison}")
    untracked: list[str] = []
    for number, comparison in enumerate(missing, start=1):
        console.rule(f"{comparison}, {number} of {len(missing)}", style="none")
        measure_comparison(comparison.config, comparison.stem)
        untracked += track(comparison.csv, comparison.config.track, say)
    for sentence in untracked:
        say(sentence)
    files, refused = _update_summary(plan, comparisons)
    for refusal in refused:
        say(refusal)
    failures = {planned.stem: words for planned in comparisons if (words := failed_backends(planned))}
    return SweepOutcome(total=len(comparisons), files=files[:2], failures=failures, untracked=untracked)


def _update_summary(
    plan: Plan, comparisons: Sequence[PlannedComparison]
) -> tuple[Sequence[Path], Sequence[str]]:
    """Rebuild the summary: its files, the most important first, and a sentence for each file refused."""
    if not comparisons:
        return (), ()
    config = comparisons[0].config
    results_dir = Path(config.results_dir)
    machine_results, out_dir = reported_folders(results_dir, Path(config.reports_dir))
    with reporting_write_errors(out_dir):
        if study := load_parts("pages").get(plan.page_of):
            written, refused = write_page(study.PAGE, files_of(results_dir), out_dir)
            return written.files, refused
        rendered = render_report(machine_results, out_dir)
        return rendered.written, rendered.refused
