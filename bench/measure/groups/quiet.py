"""Waits before a launch until other processes leave the ranks' cores alone, but not for ever."""

from bench.machine.telemetry.other_processes import Look, describe_takers
from bench.measure.record.progress import ProgressBar
from bench.results.validity import allowed_seconds

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
        with self._bar.doing("wait", self._words(where, takers)):
            while self._left > 0 and takers is not None:
                takers = self._find_takers()
                if takers is not None:
                    self._bar.redraw(self._words(where, takers))
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

    def _words(self, where: str, takers: str) -> str:
        return f"{where}: waiting up to {max(0, self._left):.0f} s for other processes on the cores: {takers}"
