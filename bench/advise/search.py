"""Finds the fastest configuration: what may be it is trained once, and the closest are measured in full.

An advice is checked by training every configuration within the limit, whatever was predicted of it.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.advise.bounds import ANYTHING, Bounds, exactly
from bench.advise.measured import Trained
from bench.advise.plain import PlainTraining, divisors
from bench.advise.predict import Candidate, select
from bench.statistics.intervals import Speedup

OUT_OF_MEMORY, WITHOUT_REFERENCE = "oom", "skipped"

MOST_COMPARISONS = 4
"""How many comparisons train candidates at most: after one that failed come those that it had displaced, or
the same in more parts."""

CLOSE = 0.15
"""A configuration that was slower than this in its one launch is not measured in full: launches of the same
differ by 3 to 9 % on shared machines (docs/validation.md)."""

Train = Callable[[Sequence[Candidate]], Mapping[str, Trained]]
"""Trains candidates in one comparison; what became of each that had its turn, by its name."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The fastest configurations, and what is known of the others."""

    outcomes: Sequence[Trained]  # of what was measured in full, the fastest first; then of what failed
    slower: Sequence[Trained]  # what was trained in one launch only
    left_out: Sequence[tuple[Candidate, str]]  # what was not trained, each with the reason

    @property
    def best(self) -> Trained | None:
        """The fastest; None if nothing was timed."""
        return next((outcome for outcome in self.outcomes if outcome.samples_per_s is not None), None)


@dataclass(frozen=True, kw_only=True)
class AdviceCheck:
    """What all configurations reach within the limit, and how near the advised one comes to the best."""

    # of all, each trained in one launch; those that were timed first, the fastest of them first
    outcomes: Sequence[Trained]
    untrained: Sequence[Candidate]  # those that had no turn
    is_fastest: bool  # the advised one is the fastest of them
    # else, its throughput over that of the fastest, both measured in full; None if one is not
    ratio: Speedup | None


def find_best(
    candidates: Sequence[Candidate],
    *,
    limit_bytes: float,
    training: PlainTraining,
    train_once: Train,
    measure: Train,
) -> Advice:
    """Train whatever may be the best, until nothing is left that may, and measure the closest.

    All ranks together may take `limit_bytes`. `train_once` trains in one launch, `measure` in full.
    """
    first = _Search(candidates, train_once, training.micro_batch)
    first.train_open(lambda alive: select(alive, limit_bytes).open)
    finalists, slower = _closest(first.timed(), training, limit_bytes)
    last = _Search(finalists, measure, training.micro_batch)
    last.train_open(lambda alive: alive)
    selection = select([*first.alive.values()], limit_bytes)
    late = f"not yet trained after {MOST_COMPARISONS} comparisons"
    left_out = [*selection.left_out, *((candidate, late) for candidate in selection.open)]
    return Advice(
        outcomes=[*last.timed(), *last.failed(), *first.failed()],
        slower=slower,
        left_out=[(each, reason) for each, reason in left_out if each.backend not in first.outcomes],
    )


def check_advice(
    advice: Advice, candidates: Sequence[Candidate], *, micro_batch: int, train_once: Train, measure: Train
) -> AdviceCheck:
    """Train every candidate in the fewest parts in which it fits, and compare the advised one with the best.

    Launches differ, so that the two are compared in full.
    """
    undivided = [dataclasses.replace(candidate, parts=1) for candidate in candidates]
    search = _Search(undivided, train_once, micro_batch, 2 * len(divisors(micro_batch)))
    search.train_open(lambda alive: alive)
    timed, advised = search.timed(), advice.best
    is_fastest, ratio = False, None
    if advised is not None and timed:
        fastest = timed[0].candidate
        is_fastest = _key(fastest) == _key(advised.candidate)
        if not is_fastest:
            in_full = {_key(outcome.candidate): outcome for outcome in advice.outcomes}
            best = in_full.get(_key(fastest)) or measure([fastest]).get(fastest.backend)
            ratio = advised.against(best) if best is not None and best.samples_per_s is not None else None
    return AdviceCheck(
        outcomes=[*timed, *search.failed()],
        untrained=[candidate for name, candidate in search.alive.items() if name not in search.outcomes],
        is_fastest=is_fastest,
        ratio=ratio,
    )


def _key(candidate: Candidate) -> tuple[str, int]:
    return candidate.backend, candidate.parts


class _Search:
    """Trains candidates in at most so many comparisons until nothing is open.

    `alive` has the candidates that were trained or may be, `outcomes` what became of the first, by name.
    """

    def __init__(
        self, candidates: Sequence[Candidate], train: Train, micro_batch: int, most: int = MOST_COMPARISONS
    ) -> None:
        self._train, self._micro_batch, self._most = train, micro_batch, most
        self.alive = {candidate.backend: candidate for candidate in candidates}
        self.outcomes: dict[str, Trained] = {}

    def train_open(self, choose: Callable[[Sequence[Candidate]], Sequence[Candidate]]) -> None:
        """Train what is chosen of those alive; what runs out of memory is tried in more parts."""
        for _ in range(self._most):
            chosen = choose([*self.alive.values()])
            wanted = [candidate for candidate in chosen if candidate.backend not in self.outcomes]
            if not wanted:
                return
            fastest = [outcome.candidate for outcome in self.timed()[:1]]
            for name, outcome in self._train([*fastest, *wanted]).items():
                self._keep(name, outcome)

    def _keep(self, name: str, outcome: Trained) -> None:
        smaller = in_more_parts(self.alive[name], self._micro_batch)
        if outcome.status == OUT_OF_MEMORY and smaller is not None:
            self.alive[name] = smaller
            self.outcomes.pop(name, None)
        elif outcome.status != WITHOUT_REFERENCE:
            self.outcomes[name] = outcome
            if outcome.samples_per_s is None:
                del self.alive[name]

    def timed(self) -> list[Trained]:
        """The outcomes with a throughput, the fastest first."""
        timed = (outcome for outcome in self.outcomes.values() if outcome.samples_per_s is not None)
        return sorted(timed, key=lambda outcome: -(outcome.samples_per_s or 0.0))

    def failed(self) -> list[Trained]:
        """The outcomes without a throughput."""
        return [outcome for outcome in self.outcomes.values() if outcome.samples_per_s is None]


def _closest(
    outcomes: Sequence[Trained], training: PlainTraining, limit_bytes: float
) -> tuple[list[Candidate], list[Trained]]:
    """Divide what was trained in one launch into what may be the fastest, and what was slower.

    What is expected to fit in fewer parts, now that its memory is known, is taken in those.
    """
    finalists: list[Candidate] = []
    slower: list[Trained] = []
    fastest = max((outcome.samples_per_s or 0.0 for outcome in outcomes), default=0.0)
    for outcome in outcomes:
        candidate, gain = in_fewer_parts(outcome, training, limit_bytes)
        if gain.high * (outcome.samples_per_s or 0.0) >= (1 - CLOSE) * fastest:
            finalists.append(candidate)
        else:
            slower.append(outcome)
    return finalists, slower


def in_more_parts(candidate: Candidate, micro_batch: int) -> Candidate | None:
    """A candidate in at least twice as many parts, which need less memory; None if there are none.

    How fast it is then, nothing says.
    """
    more = next((parts for parts in divisors(micro_batch) if parts >= 2 * candidate.parts), None)
    return None if more is None else dataclasses.replace(candidate, parts=more, speed=ANYTHING)


def in_fewer_parts(outcome: Trained, training: PlainTraining, limit_bytes: float) -> tuple[Candidate, Bounds]:
    """Return a candidate in the fewest parts that should fit, as its measured peak says, and the gain."""
    candidate = outcome.candidate
    if outcome.peak_gib is not None:
        at_once = training.samples_at_once(candidate.parts)
        for parts in divisors(training.micro_batch):
            if parts >= candidate.parts:
                break
            more = training.samples_at_once(parts) - at_once
            memory = exactly(outcome.peak_gib * 2**30) + candidate.sample_memory * exactly(more)
            if memory.middle <= limit_bytes:
                gain = training.speed_in_parts(parts, candidate.speed, before=candidate.parts)
                return dataclasses.replace(candidate, parts=parts, memory=memory), gain
    return candidate, exactly(1.0)
