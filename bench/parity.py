"""Does a backend train like the reference? Judged on losses with dropout off, before anything is timed."""

import math
from collections.abc import Sequence

from bench.errors import LaunchFailed


def check_losses(losses: Sequence[float], reference: Sequence[float], tolerance: float) -> float:
    """The largest relative difference of the losses from the reference's, step by step.

    The first and the last two steps see the same two batches, so that their means may be compared.

    Raises:
        LaunchFailed: status `diverged`, if the loss is not finite, rises, or differs beyond `tolerance`.
    """
    if not all(math.isfinite(loss) for loss in losses):
        raise LaunchFailed("diverged", "the loss is not finite with dropout off")
    difference = max(abs(ours - theirs) / abs(theirs) for ours, theirs in zip(losses, reference, strict=True))
    if difference > tolerance:
        raise LaunchFailed(
            "diverged",
            f"the loss differs from the reference's by {difference:.2g} (relative), "
            f"more than measure.parity_tolerance={tolerance:g}",
        )
    if sum(losses[-2:]) > sum(losses[:2]) * (1 + tolerance):
        raise LaunchFailed(
            "diverged", f"the loss rises with dropout off, from {losses[0]:.4g} to {losses[-1]:.4g}"
        )
    return difference
