"""What a job of SLURM knows of its own nodes."""

import os
from collections.abc import Mapping

FIRST_PORT, PORTS = 20_000, 10_000
"""Outside of what Linux gives to outgoing connections (32768 to 60999)."""


def endpoint(variables: Mapping[str, str] = os.environ) -> str | None:
    """The first node of this job, and a port that another job is not likely to have; None outside of one."""
    if "SLURM_JOB_ID" not in variables:
        return None
    import submitit  # only where there is SLURM

    host = submitit.JobEnvironment().hostnames[0]
    return f"{host}:{FIRST_PORT + int(variables['SLURM_JOB_ID']) % PORTS}"
