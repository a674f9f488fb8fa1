"""What a step consists of, when its gradients are there, and what its model's shapes say of it."""

from dataclasses import dataclass

FORWARD, BACKWARD, UPDATE, COPIES, WHOLE = "forward", "backward", "update", "copies", "whole"
"""Forward and backward pass of one micro-batch; the optimizer's update of all that is trained; copying all
gradients into one tensor and back, as what sends them does; a step as a whole, without the copies. Ranks
train apart meanwhile, and send nothing."""

TOGETHER = "together"  # a step of ranks that send what the sharding has them send, as in timed blocks


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


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What a model's shapes alone say of one micro-batch on one rank: counted, not measured."""

    parameters: int  # of the model, tied ones once
    tensors: tuple[int, ...]  # numbers of each tensor that is trained, in the model's order
    layers: int  # that are repeated
    layer_parameters: int  # trained ones of all of these together
    forward_flops: int  # of a micro-batch
    backward_flops: int  # of the same
    activation_bytes: int  # of everything that the forward pass keeps for the backward pass
    layer_activation_bytes: int  # of it, what the repeated layers keep
    # of the backward pass's FLOPs so large a share is done when so many gradients are there
    ready: tuple[ReadyGradients, ...]

    @property
    def trainable(self) -> int:
        """Numbers that are trained."""
        return sum(self.tensors)
