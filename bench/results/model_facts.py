"""What is known of a model from its shapes alone, for one micro-batch on one rank."""

from dataclasses import dataclass

from bench.results.step_parts import ReadyGradients


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Counted, not measured."""

    parameters: int  # of the model, tied ones once
    tensors: tuple[int, ...]  # numbers of each tensor that is trained, in the model's order
    layers: int  # that are repeated
    layer_parameters: int  # trained ones of all of these together
    forward_flops: int  # of a micro-batch
    backward_flops: int  # likewise
    activation_bytes: int  # of everything that the forward pass keeps for the backward pass
    layer_activation_bytes: int  # of it, what the repeated layers keep
    # of the backward pass's FLOPs so large a share is done when so many gradients are there
    ready: tuple[ReadyGradients, ...]

    @property
    def trainable(self) -> int:
        """Numbers that are trained."""
        return sum(self.tensors)
