"""Facts that follow from a model's shapes."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Facts of one micro-batch on one rank from a model's shapes alone: counted, not measured."""

    parameters: int  # of the model, tied ones once
    tensors: tuple[int, ...]  # elements of each tensor that is trained, in the model's order
    layers: int  # that are repeated
    layer_parameters: int  # trained ones of all of these together
    forward_flops: int  # of a micro-batch
    backward_flops: int  # of the same
    activation_bytes: int  # of everything that the forward pass keeps for the backward pass
    layer_activation_bytes: int  # of it, what the repeated layers keep
    # elements of the gradients that are ready, and by then the share of the backward pass's FLOPs
    ready: tuple[tuple[int, float], ...]

    @property
    def trainable(self) -> int:
        """Elements that are trained."""
        return sum(self.tensors)
