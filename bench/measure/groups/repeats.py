"""Counts the blocks that were contaminated, for one line per backend and launch on the terminal."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from bench.machine.telemetry.other_processes import MOST_NAMED, Taker, describe_takers
from bench.results.validity import OTHER_PROCESSES, Contamination


@dataclass
class Tally:
    """The contaminated blocks of one backend in one launch."""

    by_others: int = 0  # measured again since other processes had the cores
    otherwise: int = 0  # measured again for another reason, the last of which is `reason`
    reason: str = ""
    lost: int = 0  # rounds that others spoiled and that could not be measured again
    # who had the cores, by process id; the largest share that was seen
    takers: dict[int, Taker] = field(default_factory=dict)

    def add_takers(self, takers: Iterable[Taker]) -> None:
        """Keep the largest share of each process."""
        for taker in takers:
            known = self.takers.get(taker.pid, taker)
            self.takers[taker.pid] = max(known, taker, key=lambda taker: taker.cores)

    def largest_takers(self) -> list[Taker]:
        """Who had the largest shares, the largest first."""
        return sorted(self.takers.values(), key=lambda taker: -taker.cores)[:MOST_NAMED]


class Repeats:
    """Counts by launch and backend."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[int, str], Tally] = defaultdict(Tally)

    def count(
        self, launch: int, name: str, contamination: Contamination, takers: Collection[Taker], *, again: bool
    ) -> None:
        """Count a contaminated block.

        Args:
            launch: its number.
            name: of the backend.
            contamination: why the block does not count.
            takers: which processes were at work just after it.
            again: it is measured again; else its round stays without it.
        """
        tally = self._tallies[launch, name]
        tally.add_takers(takers)
        if contamination.cause == OTHER_PROCESSES:
            tally.by_others += again
            tally.lost += not again
        elif again:
            tally.otherwise += 1
            tally.reason = str(contamination)

    def lines(self, launch: int) -> list[str]:
        """A line for each backend that had to measure again in this launch."""
        return [
            f"{name}: {words}"
            for (number, name), tally in self._tallies.items()
            if number == launch and (words := _describe(tally))
        ]

    def is_spoiled(self, launch: int, names: Sequence[str], rounds: int) -> bool:
        """Whether others took so many rounds of every backend that each would be `invalid`: over a third."""
        lost = [self._tallies[launch, name].lost for name in names]
        return bool(lost) and all(3 * count > rounds for count in lost)

    def takers(self, launch: int) -> list[Taker]:
        """Who had the cores in this launch, over all backends."""
        merged = Tally()
        for (number, _), tally in self._tallies.items():
            if number == launch:
                merged.add_takers(tally.takers.values())
        return merged.largest_takers()


def _describe(tally: Tally) -> str:
    parts = []
    if tally.by_others:
        takers = describe_takers(tally.largest_takers())
        parts.append(
            f"{_blocks(tally.by_others)} measured again, since other processes had the cores: {takers}"
        )
    if tally.otherwise:
        parts.append(f"{_blocks(tally.otherwise)} measured again: {tally.reason}")
    if tally.lost:
        parts.append(f"{tally.lost} more could not be, since measure.repeats was used up")
    return "; ".join(parts)


def _blocks(count: int) -> str:
    return f"{count} block{'s' * (count != 1)}"
