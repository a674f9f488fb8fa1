"""The address at which the nodes of a SLURM job meet: the default of device.rdzv_endpoint."""

import os
from collections.abc import Mapping

FIRST_PORT, PORT_COUNT = 20_000, 10_000
"""A job's port is the first plus its id modulo the count; Linux gives those from 32768 on to others."""


def endpoint(variables: Mapping[str, str] = os.environ) -> str | None:
    """Return `HOST:PORT` of the job's first node, the port from the job's id; None outside of a job."""
    if "SLURM_JOB_ID" not in variables:
        return None
    from submitit.slurm.slurm import SlurmJobEnvironment  # takes half a second

    host = SlurmJobEnvironment().hostnames[0]
    return f"{host}:{FIRST_PORT + int(variables['SLURM_JOB_ID']) % PORT_COUNT}"
