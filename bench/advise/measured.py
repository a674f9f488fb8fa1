"""What those configurations reach that the prediction left open: measured under the limit, and ranked."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.advise.predict import Candidate, divisors
from bench.analysis import intervals
from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.intervals import Speedup
from bench.analysis.throughput import log_ratios
from bench.config.compose import compose
from bench.config.naming import file_stem, repeat_command
from bench.measure.comparison import measure_comparison
from bench.measure.preflight import check_and_name_device
from bench.results import csv_files
from bench.setup import stacks

OUT_OF_MEMORY = "oom"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a configuration has done.

    Attributes:
        candidate: it.
        status: of the backend; only with `ok` there are figures.
        message: why it has none.
        samples_per_s: of a step, all ranks.
        peak_gib: of all ranks.
        against_first: throughput over that of the fastest, in the same rounds; None for the fastest.
        command: that measures it alone.
        csv: where its rows are.
    """

    candidate: Candidate
    status: str
    message: str
    samples_per_s: float | None
    peak_gib: float | None
    against_first: Speedup | None
    command: str
    csv: Path


def measure(candidates: Sequence[Candidate], line: Sequence[str]) -> list[Outcome]:
    """Measure these configurations in one comparison; the fastest first, those that failed last.

    Args:
        candidates: at least one.
        line: the overrides that all of them share.
    """
    whole = [*line, *overrides_of(candidates)]
    config = compose(whole)
    stack = stacks.own()
    stem = file_stem(config, check_and_name_device(config), whole, stack)
    csv = measure_comparison(config, stem, repeat_command(whole, stack)).csv
    results = ComparisonResults(stem=stem, rows=csv_files.read(csv))
    timed = [one for one in results.summaries if one.samples_per_s is not None and one.status == "ok"]
    fastest = max(timed, key=lambda one: one.samples_per_s or 0.0, default=None)
    outcomes = []
    for candidate in candidates:
        mine = results.of(candidate.backend)
        if mine is None:  # the comparison ended before its turn
            continue
        peak = results.peak_mib(mine)
        logs = (
            None
            if fastest is None or mine not in timed or mine is fastest
            else log_ratios(results.rows, mine.backend, fastest.backend)
        )
        outcomes.append(
            Outcome(
                candidate=candidate,
                status=mine.status,
                message=mine.message,
                samples_per_s=mine.samples_per_s if mine in timed else None,
                peak_gib=None if peak is None else peak * config.device.world_size / 1024,
                against_first=None if logs is None else intervals.speedup_of_rounds(logs),
                command=command_of(candidate, line, stack),
                csv=csv,
            )
        )
    return sorted(outcomes, key=lambda one: -(one.samples_per_s or 0.0))


def overrides_of(candidates: Sequence[Candidate]) -> list[str]:
    """The overrides that choose these configurations."""
    parts = [f"backends.{one.backend}.accumulate={one.parts}" for one in candidates if one.parts > 1]
    return [f"backend=[{','.join(one.backend for one in candidates)}]", *parts]


def command_of(candidate: Candidate, line: Sequence[str], stack: str) -> str:
    """The command that measures a configuration alone."""
    return repeat_command([*line, *overrides_of([candidate])], stack)


def in_more_parts(candidate: Candidate, micro_batch: int) -> Candidate | None:
    """The same in at least twice as many parts, which need less memory; None if there are none."""
    more = next((one for one in divisors(micro_batch) if one >= 2 * candidate.parts), None)
    return None if more is None else dataclasses.replace(candidate, parts=more)


def measure_again(
    outcomes: Sequence[Outcome], smaller: Sequence[Candidate], line: Sequence[str]
) -> list[Outcome]:
    """Measure what ran out of memory in more parts, beside the fastest so far; all of them, ranked.

    Args:
        outcomes: of the first comparison.
        smaller: what ran out of memory there, in more parts.
        line: the overrides that all configurations share.
    """
    first, *others = outcomes
    tried = [first.candidate] if first.samples_per_s is not None else []
    second = measure([*tried, *smaller], line)
    retried = {one.candidate.backend for one in second}
    kept = [one for one in others if one.candidate.backend not in retried]
    return sorted([*second, *kept], key=lambda one: -(one.samples_per_s or 0.0))
