"""What runs now and how long it will still take. Draws only between blocks, so that it costs them nothing."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


class ProgressBar:
    """A progress bar on a terminal; elsewhere, a line for each thing that is done.

    The time that is left follows from what is expected, by kind: things of a kind take about equally long.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._left: dict[str, int] = {}
        self._durations: dict[str, list[float]] = defaultdict(list)
        self._started = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            auto_refresh=False,  # a refreshing thread would take CPU time from the ranks
            transient=True,
        )
        self._task = self._bar.add_task("", total=1.0, left="")

    def __enter__(self) -> "ProgressBar":
        if self.console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @contextmanager
    def doing(self, kind: str, what: str) -> Iterator[None]:
        """Show `what` while it runs; count it as done afterwards, however it ended."""
        self._show(what)
        start = time.monotonic()
        try:
            yield
        finally:
            self._durations[kind].append(time.monotonic() - start)
            self._left[kind] = max(0, self._left.get(kind, 0) - 1)

    def expect(self, more: Mapping[str, int]) -> None:
        """Count on so many further things of each kind."""
        for kind, count in more.items():
            self._left[kind] = self._left.get(kind, 0) + count

    def print_line(self, line: str) -> None:
        """Print a line that stays."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def redraw(self, what: str) -> None:
        """Show `what` in place of what runs now; only on a terminal, since elsewhere it would be a line."""
        if self.console.is_terminal:
            self._show(what)

    def seconds_left(self) -> float | None:
        """From the mean duration of each kind so far; None until every kind has been seen."""
        unseen = [kind for kind, count in self._left.items() if count and not self._durations[kind]]
        if unseen:
            return None
        return sum(
            count * sum(self._durations[kind]) / len(self._durations[kind])
            for kind, count in self._left.items()
            if count
        )

    def _show(self, what: str) -> None:
        left = self.seconds_left()
        shown = "" if left is None else f"about {left // 60:.0f}:{left % 60:02.0f} left"
        if not self.console.is_terminal:
            elapsed = time.monotonic() - self._started
            self.print_line(f"{elapsed:6.1f} s  {what}" + (f"  ({shown})" if shown else ""))
            return
        passed = time.monotonic() - self._started
        share = passed / (passed + left) if left is not None else 0.0
        self._bar.update(self._task, description=what, completed=share, left=shown, refresh=True)
