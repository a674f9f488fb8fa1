"""What runs now and how long it will still take. Draws only between blocks, so that it costs them nothing."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from bench.results import arithmetic


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
    def doing(self, kind: str, activity: str) -> Iterator[None]:
        """Show `activity` while it runs; count it as done afterwards, however it ended."""
        self._show(activity)
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

    def redraw(self, activity: str) -> None:
        """Show `activity` in place of what runs now; elsewhere than on a terminal it would be a line."""
        if self.console.is_terminal:
            self._show(activity)

    def seconds_left(self) -> float | None:
        """From the mean duration of each kind so far; None until every kind has been seen."""
        left = {kind: count for kind, count in self._left.items() if count}
        if not all(self._durations[kind] for kind in left):
            return None
        return sum(count * arithmetic.mean(self._durations[kind]) for kind, count in left.items())

    def _show(self, activity: str) -> None:
        left = self.seconds_left()
        estimate = "" if left is None else f"about {left // 60:.0f}:{left % 60:02.0f} left"
        passed = time.monotonic() - self._started
        if not self.console.is_terminal:
            self.print_line(f"{passed:6.1f} s  {activity}" + (f"  ({estimate})" if estimate else ""))
            return
        share = passed / (passed + left) if left is not None else 0.0
        self._bar.update(self._task, description=activity, completed=share, left=estimate, refresh=True)
