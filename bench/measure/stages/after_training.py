"""What follows training in the parity launch, beside what every comparison does."""

from typing import Protocol

from bench.measure.groups.running import RunningGroups


class AfterTraining(Protocol):
    """Uses trained groups. What fails is on record in a file of its own, and nothing timed depends on it."""

    def use(self, groups: RunningGroups) -> None:
        """While they live; all have taken the same steps. A group that fails is closed."""

    def finish(self) -> None:
        """Once all backends have been trained, and their groups have ended."""


class NothingAfterTraining:
    """Of a comparison that asks for nothing."""

    def use(self, groups: RunningGroups) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""
