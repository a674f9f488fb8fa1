"""Where the nodes of a SLURM job meet."""

import os
from collections.abc import Mapping

FIRST_PORT, PORTS = 20_000, 10_000
"""Below those that Linux gives to outgoing connections (32768 and on)."""


def endpoint(variables: Mapping[str, str] = os.environ) -> str | None:
    """The job's first node, and a port that another job is not likely to have; None outside of a job."""
    if "SLURM_JOB_ID" not in variables:
        return None
    from submitit.slurm.slurm import SlurmJobEnvironment  # half a second that nobody else need wait

    host = SlurmJobEnvironment().hostnames[0]
    return f"{host}:{FIRST_PORT + int(variables['SLURM_JOB_ID']) % PORTS}"
