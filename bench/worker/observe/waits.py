"""What is asked of a training so that all ranks do something at a time, and a clock sees all of it."""

from typing import Protocol

import torch


class Waits(Protocol):
    """Knows when its device and the other ranks are ready: `bench.worker.rank.training.Training` is one."""

    device: torch.device

    def synchronize(self) -> None:
        """Wait until the device has done everything it was given."""

    def barrier(self) -> None:
        """Wait until every rank is here."""
