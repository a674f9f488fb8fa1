"""What a step consists of, and when its gradients are there."""

from dataclasses import dataclass

FORWARD, BACKWARD, UPDATE, COPIES, WHOLE = "forward", "backward", "update", "copies", "whole"
"""Forward and backward pass of one micro-batch; the optimizer's update of all that is trained; copying all
gradients into one tensor and back, as what sends them does; a step as a whole, without the copies. Ranks
train apart meanwhile, and send nothing."""

TOGETHER = "together"
"""A step of ranks that send what the sharding has them send, as in timed blocks."""


@dataclass(frozen=True, kw_only=True)
class TimedPart:
    """A part of a step on one rank.

    Attributes:
        part: one of those, or `TOGETHER`.
        seconds: of each repetition.
        cpu_seconds: of one; mean.
    """

    part: str
    seconds: tuple[float, ...]
    cpu_seconds: float


@dataclass(frozen=True, kw_only=True)
class ReadyGradients:
    """How far a backward pass has come when so many gradients are there.

    Attributes:
        elements: of all gradients that are there by then.
        share: of the backward pass that is over.
    """

    elements: int
    share: float
