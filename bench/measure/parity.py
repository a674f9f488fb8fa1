"""Does a backend train like the reference? Judged on losses with dropout off, before anything is timed."""

import math
from dataclasses import dataclass

from bench.errors import LaunchFailed

GRADIENT_TOLERANCE = {"fp32": 0.01, "tf32": 0.02, "fp16": 0.03, "bf16": 0.1}
"""By precision: how far the norm of a step's gradient may differ from the reference's, relative to it.

Adam's update stays the same when all gradients are scaled, so that losses alone would not show gradients that
were summed where they should have been averaged, which is at least a factor of 2."""


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """What one backend did in the parity launch, step by step; means over the ranks.

    Steps that fp16 skips, since a gradient overflowed, are not among them: they were taken again.
    """

    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]


def check_parity(
    ours: Trajectory, reference: Trajectory, tolerance: float, gradient_tolerance: float
) -> float:
    """The largest relative difference of the losses from the reference's, step by step.

    The first and the last two steps see the same two batches, so that their means may be compared.

    Args:
        ours: of the backend in question.
        reference: of the reference backend, or the same if this is it.
        tolerance: relative, on every loss.
        gradient_tolerance: relative, on every gradient's norm.

    Raises:
        LaunchFailed: status `diverged`, if a loss or gradient is not finite, the loss rises, the gradient
            vanishes, or either differs too much from the reference's.
    """
    if not all(map(math.isfinite, (*ours.losses, *ours.gradient_norms))):
        raise LaunchFailed("diverged", "the loss or its gradient is not finite with dropout off")
    if min(ours.gradient_norms) <= 0:
        raise LaunchFailed("diverged", "the gradient is zero with dropout off: nothing is learnt")
    difference = _largest_difference(ours.losses, reference.losses)
    if not difference <= tolerance:
        raise LaunchFailed(
            "diverged",
            f"the loss differs from the reference's by {difference:.2g} (relative), "
            f"more than measure.parity_tolerance={tolerance:g}",
        )
    gradient_difference = _largest_difference(ours.gradient_norms, reference.gradient_norms)
    if not gradient_difference <= gradient_tolerance:
        raise LaunchFailed(
            "diverged",
            f"the gradient's norm differs from the reference's by {gradient_difference:.2g} (relative), "
            f"more than {gradient_tolerance:g}",
        )
    if sum(ours.losses[-2:]) > sum(ours.losses[:2]) * (1 + tolerance):
        raise LaunchFailed(
            "diverged",
            f"the loss rises with dropout off, from {ours.losses[0]:.4g} to {ours.losses[-1]:.4g}",
        )
    return difference


def _largest_difference(ours: tuple[float, ...], reference: tuple[float, ...]) -> float:
    return max(abs(our - other) / abs(other) for our, other in zip(ours, reference, strict=True))
