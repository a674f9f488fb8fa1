"""What shapes of weights say of a model."""

from collections.abc import Sequence

from bench.studies.scale.model_facts import ModelFacts


def facts_of_shapes(
    tensors: Sequence[int],
    *,
    parameters: int | None = None,
    layers: int = 1,
    layer_parameters: int | None = None,
) -> ModelFacts:
    """What is known of a model with these trained tensors; all of them are in its layers by default."""
    return ModelFacts(
        parameters=sum(tensors) if parameters is None else parameters,
        tensors=tuple(tensors),
        layers=layers,
        layer_parameters=sum(tensors) if layer_parameters is None else layer_parameters,
        forward_flops=1,
        backward_flops=2,
        activation_bytes=0,
        layer_activation_bytes=0,
        ready=(),
    )
