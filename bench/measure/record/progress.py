"""What runs now and how long it will still take. Draws only between blocks, so that it costs them nothing."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from bench.results import arithmetic


class BarBelowText(Progress):
    """A progress bar below what is to stay in sight."""

    text: RenderableType = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """The text, if there is one, and the bar."""
        if self.text:
            yield self.text
        yield from super().get_renderables()


class ProgressBar:
    """A progress bar on a terminal; elsewhere, a line for each thing that is done.

    The time that is left follows from what is expected, by kind: things of a kind take about equally long.
    Before the first of a kind is done, the time that was guessed stands for it.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._left: dict[str, int] = {}
        self._durations: dict[str, list[float]] = defaultdict(list)
        self._guesses: dict[str, float] = {}
        self._started = time.monotonic()
        self._make_bar()

    def _make_bar(self) -> None:
        """Make a new bar: a restarted one would erase as many lines as it last had."""
        self._bar = BarBelowText(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
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
        left = self.seconds_left()
        estimate = "" if left is None else f"{describe_duration(left)} left"
        passed = time.monotonic() - self._started
        if self.console.is_terminal:
            share = passed / (passed + left) if left is not None else 0.0
            self._bar.update(self._task, description=activity, completed=share, left=estimate, refresh=True)
        else:
            self.print_line(f"{passed:6.1f} s  {activity}" + (f"  ({estimate})" if estimate else ""))
        start = time.monotonic()
        try:
            yield
        finally:
            self._durations[kind].append(time.monotonic() - start)
            self._left[kind] = max(0, self._left.get(kind, 0) - 1)

    def expect(self, more: Mapping[str, int]) -> None:
        """Add the counts in `more`, by kind, to what is left to do."""
        for kind, count in more.items():
            self._left[kind] = self._left.get(kind, 0) + count

    def print_line(self, line: str) -> None:
        """Print a line that stays."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=not self.console.is_terminal)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Leave the terminal to what is printed meanwhile, in place of the bar."""
        self._bar.stop()
        yield
        self._make_bar()
        self.__enter__()

    def show(self, title: str, rows: Mapping[str, str]) -> None:
        """Show this above the bar, in place of the last one; without a terminal, print it as a line."""
        if not self.console.is_terminal:
            listed = "; ".join(f"{name} {words}" for name, words in rows.items())
            self.print_line(f"{title}: {listed}")
            return
        table = Table.grid(padding=(0, 2))
        for cells in rows.items():
            table.add_row(*map(Text, cells))
        self._bar.text = Group(Text(title), table)
        self._bar.refresh()

    def guess(self, seconds: Mapping[str, float]) -> None:
        """Say how long a thing of each kind will take; measured durations of a kind take precedence."""
        self._guesses |= seconds

    def seconds_left(self) -> float | None:
        """How long everything that is left will take."""
        return self.seconds_of(self._left)

    def seconds_of(self, things: Mapping[str, int]) -> float | None:
        """How long these counts of things, by kind, take; None if a kind was neither seen nor guessed."""
        seen = {kind: arithmetic.mean(durations) for kind, durations in self._durations.items() if durations}
        each = self._guesses | seen
        counted = {kind: count for kind, count in things.items() if count}
        if not counted.keys() <= each.keys():
            return None
        return sum(count * each[kind] for kind, count in counted.items())


def describe_duration(seconds: float | None) -> str:
    """`about 4 min 30 s`, or `some minutes` where nothing is known."""
    if seconds is None:
        return "some minutes"
    minutes, rest = divmod(round(seconds), 60)
    return f"about {minutes} min {rest} s" if minutes else f"about {rest} s"
