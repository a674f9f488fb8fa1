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
    """A part of a step on one rank."""

    part: str  # one of those, or `TOGETHER`
    seconds: tuple[float, ...]  # of each repetition
    cpu_seconds: float  # of one; mean


@dataclass(frozen=True, kw_only=True)
class ReadyGradients:
    """How far a backward pass has come when so many gradients are there."""

    elements: int  # of all gradients that are there by then
    share: float  # of the backward pass that is over
