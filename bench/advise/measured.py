"""Trains configurations under the limit, in one comparison, and says what became of each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.advise.predict import Candidate
from bench.analysis.throughput import log_throughput
from bench.config.compose import compose
from bench.config.naming import file_stem, repeat_command
from bench.machine.hardware import memory_bytes
from bench.measure.comparison import measure_comparison
from bench.measure.preflight import check_and_name_device
from bench.report.content.collection import ReportedComparison, read_comparison
from bench.setup import stacks
from bench.statistics import intervals
from bench.statistics.intervals import Speedup
from bench.sweeps.fit import MEMORY_SHARE
from bench.sweeps.trials import FOLDER

ONE_LAUNCH = ("measure.launches=1", "measure.rounds=4", "measure.until=null", "measure.explain=false")
"""The overrides of the first look at a configuration."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a configuration has done."""

    candidate: Candidate
    status: str  # of the backend; only with `ok` there are figures
    message: str  # why it has none
    samples_per_s: float | None  # of a step, all ranks
    peak_gib: float | None  # of all ranks
    command: str  # that measures it alone
    results: ReportedComparison  # of the comparison that it was a part of

    def against(self, first: "Outcome") -> Speedup | None:
        """Throughput over that of another: in the same rounds, or across two comparisons."""
        mine, theirs = self.candidate.backend, first.candidate.backend
        if self.results is first.results:
            return self.results.speedup_between(mine, theirs)
        sides = log_throughput(first.results.rows, theirs), log_throughput(self.results.rows, mine)
        return intervals.speedup_across_runs(*sides)


def train_once(candidates: Sequence[Candidate], line: Sequence[str]) -> dict[str, Outcome]:
    """Train candidates in a single launch, whose results lie among the trials; as `measure_together`."""
    folder = Path(compose(list(line)).results_dir) / FOLDER
    return measure_together(candidates, [*line, *ONE_LAUNCH, f"results_dir='{folder}'"])


def measure_together(candidates: Sequence[Candidate], line: Sequence[str]) -> dict[str, Outcome]:
    """Measure candidates in one comparison.

    Args:
        candidates: at least one.
        line: the overrides that all of them share.
    """
    whole = overrides_of(candidates, line)
    config = compose(whole)
    stack = stacks.own()
    stem = file_stem(config, check_and_name_device(config), whole, stack)
    results = read_comparison(measure_comparison(config, stem, whole).csv)
    outcomes = {}
    for candidate in candidates:
        mine = results.of(candidate.backend)
        if mine is None:  # the comparison ended before its turn
            continue
        peak = results.peak_mib(mine)
        outcomes[candidate.backend] = Outcome(
            candidate=candidate,
            status=mine.status,
            message=mine.message,
            samples_per_s=mine.samples_per_s if mine.status == "ok" else None,
            peak_gib=None if peak is None else peak * config.device.world_size / 1024,
            command=repeat_command(overrides_of([candidate], line), stack),
            results=results,
        )
    return outcomes


def overrides_of(candidates: Sequence[Candidate], line: Sequence[str]) -> list[str]:
    """The overrides of a comparison of these candidates.

    The reference is the one that needs least of those whose losses all others can be compared with. What a
    line says of the choice of backends, of one that is not there, and of the reference, is left out.
    """
    names = [one.backend for one in candidates]
    reference = min(candidates, key=lambda one: (not one.keeps_update, one.memory.high)).backend
    limit = next((float(one.partition("=")[2]) for one in reversed(line) if LIMIT.match(one)), None)
    crowded = limit is not None and limit * 2**30 * len(names) > MEMORY_SHARE * memory_bytes()
    return [
        *(one for one in line if not one.startswith(("reference=", "backend=")) and _is_about(one, names)),
        f"backend=[{','.join(names)}]",
        *(f"backends.{one.backend}.accumulate={one.parts}" for one in candidates),
        *([f"reference={reference}"] if len(names) > 1 else []),
        *(["measure.resident=one"] if crowded else []),
    ]


LIMIT = re.compile(r"device\.memory_limit_gib=[\d.]+$")

_OF_A_BACKEND = re.compile(r"[+~]*backends\.([^.=]+)")


def _is_about(override: str, names: Sequence[str]) -> bool:
    """Whether an override may stand in a comparison of these backends."""
    named = _OF_A_BACKEND.match(override)
    return named is None or named[1] in names
