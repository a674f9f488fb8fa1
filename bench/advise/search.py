"""Finds the fastest configuration: what may be it is trained once, and the closest are measured in full."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.advise.bounds import ANYTHING, Bounds, exactly
from bench.advise.measured import Outcome
from bench.advise.plain import PlainTraining, divisors
from bench.advise.predict import Candidate, select

OUT_OF_MEMORY, WITHOUT_REFERENCE = "oom", "skipped"

MOST_COMPARISONS = 4
"""So often what is open is trained: what failed opens what it had displaced, or is tried in more parts."""

CLOSE = 0.15
"""A configuration that was slower than this in its one launch is not measured in full: launches of the same
differ by 3 to 9 % on shared machines (docs/validation.md)."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What was found."""

    outcomes: Sequence[Outcome]  # of what was measured in full, the fastest first; then of what failed
    slower: Sequence[Outcome]  # what was trained in one launch only
    left_out: Sequence[tuple[Candidate, str]]  # what was not trained, each with the reason


Train = Callable[[Sequence[Candidate]], Mapping[str, Outcome]]
"""Trains candidates in one comparison; what became of each that had its turn, by its name."""


def find_best(
    candidates: Sequence[Candidate],
    *,
    limit_bytes: float,
    training: PlainTraining,
    train_once: Train,
    measure: Train,
) -> Advice:
    """Train whatever may be the best, until nothing is left that may, and measure the closest.

    Args:
        candidates: all of them.
        limit_bytes: that all ranks together may take.
        training: of plain PyTorch, which says what parts cost.
        train_once: trains some of them in one launch.
        measure: measures some of them.
    """
    first = Run(candidates, train_once, training.micro_batch)
    first.until_nothing_is_open(lambda alive: select(alive, limit_bytes).open)
    finalists, slower = closest(first.timed(), training, limit_bytes)
    last = Run(finalists, measure, training.micro_batch)
    last.until_nothing_is_open(lambda alive: alive)
    selection = select([*first.alive.values()], limit_bytes)
    late = [one for one in selection.open if one.backend not in first.outcomes]
    return Advice(
        outcomes=[*last.timed(), *last.failed(), *first.failed()],
        slower=slower,
        left_out=[
            *((one, reason) for one, reason in selection.left_out if one.backend not in first.outcomes),
            *((one, f"not yet trained after {MOST_COMPARISONS} comparisons") for one in late),
        ],
    )


@dataclass
class Run:
    """Trains candidates by a function until nothing is open.

    Attributes:
        alive: those that were trained or may be, by name.
        outcomes: likewise.
    """

    candidates: Sequence[Candidate]  # at the start
    train: Train  # trains some of them
    micro_batch: int  # which parts must divide
    most: int = MOST_COMPARISONS  # comparisons

    def __post_init__(self) -> None:
        self.alive = {one.backend: one for one in self.candidates}
        self.outcomes: dict[str, Outcome] = {}

    def until_nothing_is_open(self, choose: Callable[[Sequence[Candidate]], Sequence[Candidate]]) -> None:
        """Train what is chosen of those alive; what runs out of memory is tried in more parts."""
        for _ in range(self.most):
            wanted = [one for one in choose([*self.alive.values()]) if one.backend not in self.outcomes]
            if not wanted:
                return
            fastest = [one.candidate for one in self.timed()[:1]]
            for name, outcome in self.train([*fastest, *wanted]).items():
                self._keep(name, outcome)

    def _keep(self, name: str, outcome: Outcome) -> None:
        smaller = in_more_parts(self.alive[name], self.micro_batch)
        if outcome.status == OUT_OF_MEMORY and smaller is not None:
            self.alive[name] = smaller
            self.outcomes.pop(name, None)
        elif outcome.status != WITHOUT_REFERENCE:
            self.outcomes[name] = outcome
            if outcome.samples_per_s is None:
                del self.alive[name]

    def timed(self) -> list[Outcome]:
        """Those with a throughput, the fastest first."""
        return ranked(self.outcomes.values())

    def failed(self) -> list[Outcome]:
        """Those without."""
        return [one for one in self.outcomes.values() if one.samples_per_s is None]


def ranked(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those that were timed, the fastest first."""
    timed = [(one.samples_per_s, one) for one in outcomes if one.samples_per_s is not None]
    return [one for _, one in sorted(timed, key=lambda pair: -pair[0])]


def closest(
    outcomes: Sequence[Outcome], training: PlainTraining, limit_bytes: float
) -> tuple[list[Candidate], list[Outcome]]:
    """Divide what was trained in one launch into what may be the fastest, and what was slower.

    What is expected to fit in fewer parts, now that its memory is known, is taken in those.
    """
    finalists: list[Candidate] = []
    slower: list[Outcome] = []
    fastest = max((one.samples_per_s or 0.0 for one in outcomes), default=0.0)
    for outcome in outcomes:
        candidate, gain = in_fewer_parts(outcome, training, limit_bytes)
        if gain.high * (outcome.samples_per_s or 0.0) >= (1 - CLOSE) * fastest:
            finalists.append(candidate)
        else:
            slower.append(outcome)
    return finalists, slower


def in_more_parts(candidate: Candidate, micro_batch: int) -> Candidate | None:
    """The same in at least twice as many parts, which need less memory; None if there are none.

    How fast it is then, nothing says.
    """
    more = next((one for one in divisors(micro_batch) if one >= 2 * candidate.parts), None)
    return None if more is None else dataclasses.replace(candidate, parts=more, speed=ANYTHING)


def in_fewer_parts(outcome: Outcome, training: PlainTraining, limit_bytes: float) -> tuple[Candidate, Bounds]:
    """Return the same in the fewest parts that should fit, as its measured peak says, and what that gains."""
    candidate = outcome.candidate
    if outcome.peak_gib is not None:
        peak = outcome.peak_gib * 2**30
        at_once = training.samples_at_once(candidate.parts)
        for parts in divisors(training.micro_batch):
            more = training.samples_at_once(parts) - at_once
            memory = exactly(peak) + candidate.sample_memory * exactly(more)
            if parts >= candidate.parts:
                break
            if memory.middle <= limit_bytes:
                gain = training.speed_in_parts(parts, candidate.speed, before=candidate.parts)
                return dataclasses.replace(candidate, parts=parts, memory=memory), gain
    return candidate, exactly(1.0)
