"""CPU time of this process."""

import resource


def cpu_seconds() -> float:
    """User + system seconds of all threads of this process and of its children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
