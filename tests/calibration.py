"""How slow this machine is at the moment, for tests of how long something takes."""

import time

LOOP_SECONDS = 0.085
"""Of `_loop` on a core of the machine that README names, while its neighbours are quiet."""


def slowness() -> float:
    """1 on the machine that README names, 2 on one that takes twice as long; never below 1.

    A machine whose neighbours come and go is up to half slower for hours, at everything alike.
    """
    return max(1.0, min(_loop() for _ in range(5)) / LOOP_SECONDS)


def _loop() -> float:
    start = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number
    return time.perf_counter() - start
