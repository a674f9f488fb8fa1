"""How much of the cores other processes take, for the few tests that are about time.

A test with the mark `quiet` is skipped with the reason where others have the cores before it starts, and
where it fails while they have. Whatever is about function must hold on a busy machine, too.
"""

import os
import time

import psutil
import pytest

BUSY_SHARE = 0.1
"""Of the time of all cores that we may use. More of it taken by others, and a duration says nothing."""

GLANCE_SECONDS = 0.5
"""How long one looks before a test; the kernel counts in hundredths of a second."""


class Others:
    """What other processes, and the hypervisor, take of the cores from now on."""

    def __init__(self) -> None:
        self.seconds, self.taken = time.monotonic(), _busy_seconds() - _own_seconds()

    def share(self) -> float:
        """Of the time of all cores since then; our own processes count once they have ended."""
        taken = _busy_seconds() - _own_seconds() - self.taken
        return taken / ((time.monotonic() - self.seconds) * len(os.sched_getaffinity(0)))

    def skip_if_busy(self) -> None:
        """Skip the test with the reason if they took too much."""
        if (share := self.share()) > BUSY_SHARE:
            pytest.skip(f"about time, and other processes had {share:.0%} of the cores")


def skip_if_busy_now() -> None:
    """Look for a moment, and skip the test if others are at work."""
    others = Others()
    time.sleep(GLANCE_SECONDS)
    others.skip_if_busy()


def _busy_seconds() -> float:
    """Of all cores that we may use, stolen time included; guests are in user time already."""
    cores, ours = psutil.cpu_times(percpu=True), os.sched_getaffinity(0)
    return sum(
        one.user + one.nice + one.system + one.irq + one.softirq + one.steal
        for core, one in enumerate(cores)
        if core in ours
    )


def _own_seconds() -> float:
    """Of this process and of all that it has started and seen end."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
