"""Whether device.blas=full can change anything here: whether MKL may use a slower path on this CPU."""

import platform

from bench.machine.processor import describe_processor
from bench.setup.recipes import MKL_MACHINE

INTEL = "GenuineIntel"
"""The vendor that Intel's CPUs name."""


def find_why_full_is_refused(machine: str, vendor: str | None) -> str:
    """Return why device.blas=full would change nothing on this kind of CPU; empty if it may."""
    if machine != MKL_MACHINE:
        return f"MKL exists for {MKL_MACHINE} only, and this machine is {machine}"
    if vendor == INTEL:
        return "MKL takes its full path on Intel's CPUs already"
    return ""


def find_why_full_is_refused_here() -> str:
    """Return why device.blas=full would change nothing on this machine; empty if it may."""
    return find_why_full_is_refused(platform.machine(), describe_processor()["vendor"])


def blas_choices_here() -> str:
    """Return the choices of device.blas that exist on this machine, for Hydra's sweeps: `full,stock`."""
    return "stock" if find_why_full_is_refused_here() else "full,stock"
