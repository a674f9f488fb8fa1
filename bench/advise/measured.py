"""Measures under the limit what the prediction left open, and ranks it."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.advise.effects import ANYTHING
from bench.advise.predict import Candidate, Selection, divisors, select
from bench.analysis import intervals
from bench.analysis.intervals import Speedup
from bench.analysis.throughput import log_throughput
from bench.config.compose import compose
from bench.config.naming import file_stem, repeat_command
from bench.machine.hardware import memory_bytes
from bench.measure.comparison import measure_comparison
from bench.measure.preflight import check_and_name_device
from bench.report.collection import ReportedComparison, read_comparison
from bench.setup import stacks
from bench.sweeps.fit import MEMORY_SHARE

OUT_OF_MEMORY, WITHOUT_REFERENCE = "oom", "skipped"

MOST_COMPARISONS = 4
"""So often what is open is measured: what failed opens what it had displaced, or is tried in more parts."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a configuration has done.

    Attributes:
        candidate: it.
        status: of the backend; only with `ok` there are figures.
        message: why it has none.
        samples_per_s: of a step, all ranks.
        peak_gib: of all ranks.
        command: that measures it alone.
        results: of the comparison that it was a part of.
    """

    candidate: Candidate
    status: str
    message: str
    samples_per_s: float | None
    peak_gib: float | None
    command: str
    results: ReportedComparison

    def against(self, first: "Outcome") -> Speedup | None:
        """Throughput over that of another: in the same rounds, or across two comparisons."""
        mine, theirs = self.candidate.backend, first.candidate.backend
        if self.results is first.results:
            return self.results.speedup_between(mine, theirs)
        sides = log_throughput(first.results.rows, theirs), log_throughput(self.results.rows, mine)
        return intervals.speedup_across_runs(*sides)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What was found.

    Attributes:
        outcomes: the fastest first, those that failed last.
        left_out: what was not measured, each with the reason.
    """

    outcomes: Sequence[Outcome]
    left_out: Sequence[tuple[Candidate, str]]


Measure = Callable[[Sequence[Candidate]], Mapping[str, Outcome]]
"""Measures candidates in one comparison; what became of each that had its turn, by its name."""


def find_best(
    candidates: Sequence[Candidate], *, limit_bytes: float, micro_batch: int, measure: Measure
) -> Advice:
    """Measure whatever may be the best, until nothing is left that may.

    Args:
        candidates: all of them.
        limit_bytes: that all ranks together may take.
        micro_batch: of the comparison, which parts must divide.
        measure: measures some of them.
    """
    alive = {one.backend: one for one in candidates}
    outcomes: dict[str, Outcome] = {}
    for _ in range(MOST_COMPARISONS):
        wanted = [one for one in select([*alive.values()], limit_bytes).open if one.backend not in outcomes]
        if not wanted:
            break
        fastest = _ranked(outcomes.values())[:1]
        for name, outcome in measure([*(one.candidate for one in fastest), *wanted]).items():
            smaller = in_more_parts(alive[name], micro_batch)
            if outcome.status == OUT_OF_MEMORY and smaller is not None:
                alive[name] = smaller
                outcomes.pop(name, None)
            elif outcome.status != WITHOUT_REFERENCE:
                outcomes[name] = outcome
                if outcome.samples_per_s is None:
                    del alive[name]
    selection = select([*alive.values()], limit_bytes)
    return Advice(
        outcomes=[
            *_ranked(outcomes.values()),
            *(one for one in outcomes.values() if one.samples_per_s is None),
        ],
        left_out=_not_measured(selection, outcomes),
    )


def _not_measured(selection: Selection, outcomes: Mapping[str, Outcome]) -> Sequence[tuple[Candidate, str]]:
    out = [(one, reason) for one, reason in selection.left_out if one.backend not in outcomes]
    late = [one for one in selection.open if one.backend not in outcomes]
    return [*out, *((one, f"not yet trained after {MOST_COMPARISONS} comparisons") for one in late)]


def _ranked(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those that were timed, the fastest first."""
    timed = [(one.samples_per_s, one) for one in outcomes if one.samples_per_s is not None]
    return [one for _, one in sorted(timed, key=lambda pair: -pair[0])]


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
    results = read_comparison(measure_comparison(config, stem, repeat_command(whole, stack)).csv)
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


def in_more_parts(candidate: Candidate, micro_batch: int) -> Candidate | None:
    """The same in at least twice as many parts, which need less memory; None if there are none.

    How fast it is then, nothing says.
    """
    more = next((one for one in divisors(micro_batch) if one >= 2 * candidate.parts), None)
    return None if more is None else dataclasses.replace(candidate, parts=more, speed=ANYTHING)
