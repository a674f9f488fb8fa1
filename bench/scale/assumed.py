"""What a rank computes where nothing was measured: FLOPs and bytes over what a kind of device reaches."""

import numpy as np

from bench.analysis.scale.estimates import Dice, Draws, Estimate
from bench.analysis.scale.steps import Parts
from bench.analysis.scale.topology import DeviceKind
from bench.config.choices import SIXTEEN_BITS
from bench.errors import UserError
from bench.results.step_parts import ModelFacts

UPDATE_BYTES = Estimate(
    value=28,
    low=28,
    high=64,
    source="a fused AdamW reads weight, gradient and two moments and writes three of them, 4 bytes each; "
    "one of several kernels (foreach) reads and writes them more often",
)
"""What an update moves for each parameter."""

COPY_BYTES = Estimate.exactly(16, "into a bucket and back: twice 4 bytes read and 4 written")
"""What copying a gradient into what is sent, and back, moves for each parameter."""


def assumed_parts(
    facts: ModelFacts, device: DeviceKind, precision: str, dice: Dice, *, grad_accum: int
) -> Parts:
    """The parts of a step of `grad_accum` micro-batches on one device of a kind.

    `dice` draws what is not known exactly.

    Raises:
        UserError: it is another precision than 16 bits, or one that the device does not have.
    """
    known = precisions_of(device)
    if precision not in known:
        raise UserError(
            f"what share of its peak {device.name} reaches is known in {' and '.join(known)} only",
            f"set precision={known[0]}",
        )
    peak = device.peak_flops_per_s[precision]
    flops_per_s = peak * dice.draw(device.reached_share)
    bytes_per_s = dice.draw(device.memory_bytes_per_s)
    elements, shares = ready_profile(facts)
    return Parts(
        forward=facts.forward_flops / flops_per_s,
        backward=facts.backward_flops / flops_per_s,
        update=facts.trainable * dice.draw(UPDATE_BYTES) / bytes_per_s,
        copies=facts.trainable * dice.draw(COPY_BYTES) / bytes_per_s,
        host=np.zeros_like(bytes_per_s),
        grad_accum=grad_accum,
        elements_ready=elements,
        share_ready=shares,
    )


def precisions_of(device: DeviceKind) -> list[str]:
    """The precisions in which it is known what a device reaches, the usual one first."""
    return [precision for precision in SIXTEEN_BITS if precision in device.peak_flops_per_s]


def ready_profile(facts: ModelFacts) -> tuple[Draws, Draws]:
    """Shares of all gradients, and of the backward pass's FLOPs that are done when these are there."""
    elements = np.array([0, *(point.elements for point in facts.ready)], dtype=float) / facts.trainable
    shares = np.array([0, *(point.share for point in facts.ready)], dtype=float)
    return elements, np.minimum(shares, 1.0)
