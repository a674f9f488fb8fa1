"""Other processes on the ranks' cores: a launch waits for them, and blocks that they spoil are counted."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from bench.machine.telemetry.other_processes import MOST_NAMED, Look, Taker, describe_takers
from bench.measure.record.progress import ProgressBar
from bench.results.validity import OTHER_PROCESSES, Contamination, allowed_seconds

LOOK_SECONDS = 1.0


class QuietCores:
    """Waits up to `measure.wait_s` seconds in all launches together.

    Args:
        cores: how many cores the ranks of this machine have.
        wait_s: seconds; with 0 nobody looks or waits.
        look: at what others do on these cores.
        bar: shows what is waited for.
    """

    def __init__(self, cores: int, wait_s: float, look: Look, bar: ProgressBar) -> None:
        self._cores = cores
        self._wait_s = self._left = wait_s
        self._look = look
        self._bar = bar

    def wait(self, where: str) -> None:
        """Return as soon as others take no more than a block may lose, or when the time is used up."""
        takers = self._find_takers() if self._left > 0 else None
        if takers is None:
            return
        left = f"waiting up to {max(0, self._left):.0f} s for other processes on the cores"
        with self._bar.doing("wait", f"{where}: {left}: {takers}"):
            while self._left > 0 and takers is not None:
                takers = self._find_takers()
        if takers is not None:
            self._bar.print_line(
                f"{where}: goes on after measure.wait_s={self._wait_s:g} seconds, although other processes "
                f"still have the cores: {takers}"
            )

    def _find_takers(self) -> str | None:
        """Look for a second: who takes the cores in words; None if they are quiet."""
        seen = self._look(LOOK_SECONDS)
        if seen.taken_seconds is None or seen.taken_seconds <= allowed_seconds(
            LOOK_SECONDS * self._cores, self._cores
        ):
            return None
        self._left -= LOOK_SECONDS
        return describe_takers(seen.takers)


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
    """Counts the blocks that were contaminated, for a line on the terminal for each backend and launch."""

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
        spoiled = f"{_blocks(tally.lost)} that others disturbed"
        parts.append(f"{spoiled} not measured again, since measure.repeats allows no more")
    return "; ".join(parts)


def _blocks(count: int) -> str:
    return f"{count} block{'s' * (count != 1)}"
