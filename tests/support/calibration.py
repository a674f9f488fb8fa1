"""How slow this machine is at the moment, for tests of how long something takes."""

import statistics
import time

LOOP_SECONDS = 0.034
"""Of `_loop` on a core of the machine that README names: 0.029 at its best, 0.052 in its slow hours."""


def slowness() -> float:
    """1 on the machine that README names, 2 on one that takes twice as long; never below 1.

    A machine whose neighbours come and go is up to half slower for hours, at everything alike.
    """
    return max(1.0, statistics.median(_loop() for _ in range(9)) / LOOP_SECONDS)


def _loop() -> float:
    start = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number
    return time.perf_counter() - start
