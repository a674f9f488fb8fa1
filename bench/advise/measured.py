"""Trains configurations under the limit, in one comparison, and says what became of each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.advise.predict import Candidate
from bench.config.compose import compose
from bench.config.naming import repeat_command
from bench.config.overrides import last_values
from bench.machine.hardware import memory_bytes
from bench.measure.comparison import measure_comparison
from bench.measure.plan.preflight import check_and_name
from bench.report.content.collection import ReportedComparison, read_comparison
from bench.setup import stacks
from bench.statistics.backend_blocks import blocks_of
from bench.statistics.intervals import Speedup, speedup_across_runs
from bench.sweeps.fit import FOLDER, MEMORY_SHARE

ONE_LAUNCH = ("measure.launches=1", "measure.rounds=4", "measure.until=null", "measure.explain=false")
"""The overrides of the first look at a configuration."""

OF_A_BACKEND = re.compile(r"[+~]*backends\.([^.=]+)")


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What became of a configuration that was trained."""

    candidate: Candidate
    status: str  # of the backend; only with `ok` there are figures
    message: str  # why it has none
    samples_per_s: float | None  # of a step, all ranks
    peak_gib: float | None  # of all ranks
    command: str  # that measures it alone
    results: ReportedComparison  # of the comparison that it was a part of

    def against(self, base: "Trained") -> Speedup | None:
        """Throughput over that of another: in the same rounds, or across two comparisons."""
        if self.results is base.results:
            return self.results.speedup_between(self.candidate.backend, base.candidate.backend)
        sides = (blocks_of(each.results.rows, each.candidate.backend) for each in (base, self))
        return speedup_across_runs(*(side.log_throughput() for side in sides))


def train_once(candidates: Sequence[Candidate], line: Sequence[str]) -> dict[str, Trained]:
    """Train candidates in a single launch, whose results lie among the trials."""
    folder = Path(compose(list(line)).results_dir) / FOLDER
    return measure_together(candidates, [*line, *ONE_LAUNCH, f"results_dir='{folder}'"])


def measure_together(candidates: Sequence[Candidate], line: Sequence[str]) -> dict[str, Trained]:
    """Measure at least one candidate in a comparison; `line` has the overrides that all share."""
    whole = overrides_of(candidates, line)
    config = compose(whole)
    results = read_comparison(measure_comparison(config, check_and_name(config, whole), whole).csv)
    outcomes = {}
    for candidate in candidates:
        summary = results.of(candidate.backend)
        if summary is None:  # the comparison ended before its turn
            continue
        peak = results.peak_mib(summary)
        outcomes[candidate.backend] = Trained(
            candidate=candidate,
            status=summary.status,
            message=summary.message,
            samples_per_s=summary.samples_per_s if summary.status == "ok" else None,
            peak_gib=None if peak is None else peak * config.device.world_size / 1024,
            command=repeat_command(overrides_of([candidate], line), stacks.own()),
            results=results,
        )
    return outcomes


def overrides_of(candidates: Sequence[Candidate], line: Sequence[str]) -> list[str]:
    """The overrides of a comparison of these candidates.

    The reference is the one that needs least of those whose losses all others can be compared with. What a
    line says of the choice of backends, of one that is not there, and of the reference, is left out.
    """
    names = [candidate.backend for candidate in candidates]
    reference = min(candidates, key=lambda candidate: (not candidate.keeps_update, candidate.memory.high))
    limit_gib = float(last_values(line).get("device.memory_limit_gib", 0))
    crowded = limit_gib * 2**30 * len(names) > MEMORY_SHARE * memory_bytes()
    kept = [
        override
        for override in line
        if not override.startswith(("reference=", "backend="))
        and ((named := OF_A_BACKEND.match(override)) is None or named[1] in names)
    ]
    return [
        *kept,
        f"backend=[{','.join(names)}]",
        *(f"backends.{candidate.backend}.accumulate={candidate.parts}" for candidate in candidates),
        *([f"reference={reference.backend}"] if len(names) > 1 else []),
        *(["measure.resident=one"] if crowded else []),
    ]
