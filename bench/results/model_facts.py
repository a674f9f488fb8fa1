"""What is known of a model from its shapes alone, for one micro-batch on one rank."""

from dataclasses import dataclass

from bench.results.step_parts import ReadyGradients


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Counted, not measured.

    Attributes:
        parameters: of the model, tied ones once.
        tensors: numbers of each tensor that is trained, in the model's order.
        layers: that are repeated.
        layer_parameters: trained ones of all of these together.
        forward_flops: of a micro-batch.
        backward_flops: likewise.
        activation_bytes: of everything that the forward pass keeps for the backward pass.
        layer_activation_bytes: of it, what the repeated layers keep.
        ready: of the backward pass's FLOPs so large a share is done when so many gradients are there.
    """

    parameters: int
    tensors: tuple[int, ...]
    layers: int
    layer_parameters: int
    forward_flops: int
    backward_flops: int
    activation_bytes: int
    layer_activation_bytes: int
    ready: tuple[ReadyGradients, ...]

    @property
    def trainable(self) -> int:
        """Numbers that are trained."""
        return sum(self.tensors)
