"""Other processes on the ranks' cores: a launch waits for them, and blocks that they spoil are counted."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.errors import plural
from bench.machine.telemetry.other_processes import MOST_NAMED, Competitor, Scan, describe_competitors
from bench.measure.record.progress import ProgressBar
from bench.results.records import Record
from bench.results.validity import OTHER_PROCESSES, Contamination, allowed_seconds, find_contamination

SCAN_SECONDS = 1.0


@dataclass
class QuietCores:
    """Waits up to `measure.wait_s` seconds in all launches together."""

    cores: int  # how many the ranks of this machine have
    wait_s: float  # 0: do not scan or wait
    scan: Scan  # of what other processes do on these cores
    bar: ProgressBar  # shows what is waited for

    def __post_init__(self) -> None:
        self._left = self.wait_s

    def wait(self, where: str) -> None:
        """Return as soon as others take no more than a block may lose, or when the time is used up."""
        competitors = self._find_competitors() if self._left > 0 else None
        if competitors is None:
            return
        left = f"waiting up to {max(0, self._left):.0f} s for other processes on the cores"
        with self.bar.doing("wait", f"{where}: {left}: {competitors}"):
            while self._left > 0 and competitors is not None:
                competitors = self._find_competitors()
        if competitors is not None:
            self.bar.print_line(
                f"{where}: goes on after measure.wait_s={self.wait_s:g} seconds, although other processes "
                f"still have the cores: {competitors}"
            )

    def _find_competitors(self) -> str | None:
        seen = self.scan(SCAN_SECONDS)
        if seen.taken_seconds is None or seen.taken_seconds <= allowed_seconds(
            SCAN_SECONDS * self.cores, self.cores
        ):
            return None
        self._left -= SCAN_SECONDS
        return describe_competitors(seen.competitors)


def describe_repeats(records: Mapping[str, Record], competitors: Iterable[Competitor]) -> list[str]:
    """What was measured again in a launch, and why: for all backends together where others disturbed them."""
    lines, foreign, lost = [], 0, 0
    for name, record in records.items():
        if record.status == "ok":  # rounds of a launch that came to its end, however often they were measured
            last = _contaminations(record, repeated=False)
            lost += sum(each.cause == OTHER_PROCESSES for each in last)
        again = _contaminations(record, repeated=True)
        otherwise = [contamination for contamination in again if contamination.cause != OTHER_PROCESSES]
        foreign += len(again) - len(otherwise)
        if otherwise:
            lines.append(f"{name}: {plural(len(otherwise), 'block')} measured again: {otherwise[-1]}")
    if foreign:
        largest = {each.pid: each for each in sorted(competitors, key=lambda each: each.cores)}
        who = describe_competitors(sorted(largest.values(), key=lambda each: -each.cores)[:MOST_NAMED])
        lines.append(f"{plural(foreign, 'block')} measured again, since other processes had the cores: {who}")
    if lost:
        disturbed = f"{plural(lost, 'block')} that other processes disturbed"
        lines.append(f"{disturbed} not measured again, since measure.repeats allows no more")
    return lines


def _contaminations(record: Record, *, repeated: bool) -> list[Contamination]:
    """Why blocks of a launch do not count: those that were measured again, or the last ones of a round."""
    attempts = Counter(block.round for block in record.blocks)
    blocks = [block for block in record.blocks if (block.attempt < attempts[block.round]) == repeated]
    found = [find_contamination(block, record.cores_per_rank) for block in blocks]
    return [contamination for contamination in found if contamination is not None]
