"""Other processes on the ranks' cores: a launch waits for them, and blocks that they spoil are counted."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.machine.telemetry.other_processes import MOST_NAMED, Look, Taker, describe_takers
from bench.measure.record.progress import ProgressBar
from bench.results.records import Record
from bench.results.validity import OTHER_PROCESSES, Contamination, allowed_seconds, find_contamination

LOOK_SECONDS = 1.0


@dataclass
class QuietCores:
    """Waits up to `measure.wait_s` seconds in all launches together."""

    cores: int  # how many the ranks of this machine have
    wait_s: float  # with 0 nobody looks or waits
    look: Look  # at what others do on these cores
    bar: ProgressBar  # shows what is waited for

    def __post_init__(self) -> None:
        self._left = self.wait_s

    def wait(self, where: str) -> None:
        """Return as soon as others take no more than a block may lose, or when the time is used up."""
        takers = self._find_takers() if self._left > 0 else None
        if takers is None:
            return
        left = f"waiting up to {max(0, self._left):.0f} s for other processes on the cores"
        with self.bar.doing("wait", f"{where}: {left}: {takers}"):
            while self._left > 0 and takers is not None:
                takers = self._find_takers()
        if takers is not None:
            self.bar.print_line(
                f"{where}: goes on after measure.wait_s={self.wait_s:g} seconds, although other processes "
                f"still have the cores: {takers}"
            )

    def _find_takers(self) -> str | None:
        """Look for a second: who takes the cores in words; None if they are quiet."""
        seen = self.look(LOOK_SECONDS)
        if seen.taken_seconds is None or seen.taken_seconds <= allowed_seconds(
            LOOK_SECONDS * self.cores, self.cores
        ):
            return None
        self._left -= LOOK_SECONDS
        return describe_takers(seen.takers)


def largest_takers(takers: Iterable[Taker]) -> list[Taker]:
    """The largest share that was seen of each process, the largest first."""
    by_share = sorted(takers, key=lambda taker: taker.cores)
    largest = {taker.pid: taker for taker in by_share}
    return sorted(largest.values(), key=lambda taker: -taker.cores)[:MOST_NAMED]


def describe_repeats(records: Mapping[str, Record], takers: Iterable[Taker]) -> list[str]:
    """What was measured again in a launch, and why: for all backends together where others disturbed them.

    Args:
        records: of the launch, by backend.
        takers: the processes that were at work just after blocks that others spoiled.
    """
    lines, by_others, lost = [], 0, sum(map(lost_rounds, records.values()))
    for name, record in records.items():
        again = _contaminations(record, repeated=True)
        otherwise = [contamination for contamination in again if contamination.cause != OTHER_PROCESSES]
        by_others += len(again) - len(otherwise)
        if otherwise:
            lines.append(f"{name}: {_blocks(len(otherwise))} measured again: {otherwise[-1]}")
    if by_others:
        who = describe_takers(largest_takers(takers))
        lines.append(f"{_blocks(by_others)} measured again, since other processes had the cores: {who}")
    if lost:
        disturbed = f"{_blocks(lost)} that other processes disturbed"
        lines.append(f"{disturbed} not measured again, since measure.repeats allows no more")
    return lines


def lost_rounds(record: Record) -> int:
    """How many rounds of a launch that came to its end others spoiled, however often they were measured."""
    if record.status != "ok":
        return 0
    return sum(each.cause == OTHER_PROCESSES for each in _contaminations(record, repeated=False))


def _contaminations(record: Record, *, repeated: bool) -> list[Contamination]:
    """Why blocks of a launch do not count: those that were measured again, or the last ones of a round."""
    attempts = Counter(block.round for block in record.blocks)
    blocks = [block for block in record.blocks if (block.attempt < attempts[block.round]) == repeated]
    found = [find_contamination(block, record.cores_per_rank) for block in blocks]
    return [contamination for contamination in found if contamination is not None]


def _blocks(count: int) -> str:
    return f"{count} block{'s' * (count != 1)}"
