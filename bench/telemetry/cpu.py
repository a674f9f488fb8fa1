"""CPU time and page faults of this process."""

import resource


def cpu_seconds() -> float:
    """User + system seconds of all threads of this process and of its children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def page_faults() -> int:
    """Page faults of this process that needed no disk: memory touched for the first time, mostly."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
