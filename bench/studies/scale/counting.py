"""`python -m bench.studies.scale.counting`: facts from a model's shapes, without computing anything.

A WorkerSpec in JSON comes on standard input, `ModelFacts` in JSON go to standard output. The model is made of
shapes alone (torch's FakeTensorMode), so that a model of any size takes next to no memory.
"""

import dataclasses
import sys
from contextlib import ExitStack, suppress
from typing import Any

import msgspec
import torch
from torch._subclasses import fake_tensor
from torch.utils.flop_counter import FlopCounterMode

from bench.launch.spec import WorkerSpec
from bench.studies.scale.model_facts import ModelFacts
from bench.worker.sharding import trained
from bench.worker.workload import feeds, precision
from bench.worker.workload import model as models
from bench.worker.workload.layers import find_layers


def find_facts(spec: WorkerSpec) -> ModelFacts:
    """Facts of a rank's first micro-batch, in the attention, precision and checkpointing of the spec.

    With checkpointing the backward pass keeps one layer's activations at a time, beside what the forward
    pass keeps.
    """
    facts = _count_somehow(spec)
    if not (spec.checkpointing and facts.layers):
        return facts
    plain = _count_somehow(dataclasses.replace(spec, checkpointing=False))
    computed_again = plain.layer_activation_bytes // plain.layers
    return dataclasses.replace(facts, activation_bytes=facts.activation_bytes + computed_again)


def _count_somehow(spec: WorkerSpec) -> ModelFacts:
    """The facts, though some models cannot be counted as they are.

    Fake tensors have shapes but no values, and some models read values. BART draws a number in training, to
    leave out a layer: it is counted as in evaluation, so what dropout keeps is missing. DeBERTa reads the
    labels: it is counted with the sum of its outputs as loss.
    """
    for training, labelled in ((True, True), (False, True), (True, False)):
        with suppress(fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException):
            return _count(spec, training=training, labelled=labelled)
    return _count(spec, training=False, labelled=False)


def _count(spec: WorkerSpec, *, training: bool, labelled: bool) -> ModelFacts:
    mode = fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        model = models.build(
            spec.model, attention=spec.attention, dropout=spec.dropout, checkpointing=spec.checkpointing
        )
    model.train(training)
    (batch, *_), *_ = feeds.make(spec, model, rank=0, world_size=1, pinned=False).steps(1)
    precision.autocast(model, spec.precision.name, "cpu")
    layers = find_layers(model)
    counter = FlopCounterMode(display=False)
    saved = _Saved(model)
    ready: list[tuple[int, int]] = []  # elements of the gradients that are ready, and FLOPs done by then

    def note_ready(parameter: torch.Tensor) -> None:
        elements = (ready[-1][0] if ready else 0) + parameter.numel()
        ready.append((elements, counter.get_total_flops()))

    with mode, counter, ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_pre_hook(saved.enter_layer))
            hooks.enter_context(layer.register_forward_hook(saved.leave_layer))
        for parameter in trained(model):
            hooks.enter_context(parameter.register_post_accumulate_grad_hook(note_ready))
        hooks.enter_context(torch.autograd.graph.saved_tensors_hooks(saved.keep, lambda tensor: tensor))
        inputs = {name: mode.from_tensor(value) for name, value in batch.items()}
        if not labelled:
            del inputs["labels"]
        outputs = model(**inputs)
        loss = outputs.loss if labelled else outputs.logits.float().sum()
        # Now, since layers that are computed again are entered again.
        forward, in_layers = counter.get_total_flops(), saved.in_layers
        loss.backward()
    backward = counter.get_total_flops() - forward
    return ModelFacts(
        parameters=models.parameter_count(model),
        tensors=tuple(one.numel() for one in trained(model)),
        layers=len(layers),
        layer_parameters=sum(one.numel() for layer in layers for one in trained(layer)),
        forward_flops=forward,
        backward_flops=backward,
        activation_bytes=saved.total,
        layer_activation_bytes=in_layers,
        ready=tuple((count, (flops - forward) / backward if backward else 1.0) for count, flops in ready),
    )


class _Saved:
    """Bytes of what autograd keeps; what several operators keep counts once, and parameters do not count."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._seen = {each.untyped_storage()._cdata for each in [*model.parameters(), *model.buffers()]}
        self._kept: list[torch.UntypedStorage] = []  # so that no other storage gets the same address
        self.total = 0
        self._before_layers: int | None = None
        self.in_layers = 0

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note a tensor that autograd keeps."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._seen:
            self._seen.add(storage._cdata)
            self._kept.append(storage)
            self.total += storage.nbytes()
        return tensor

    def enter_layer(self, *_: Any) -> None:
        """A layer begins; what is kept between the first and the last is the layers'."""
        if self._before_layers is None:
            self._before_layers = self.total

    def leave_layer(self, *_: Any) -> None:
        """A layer has ended."""
        self.in_layers = self.total - (self._before_layers or 0)


def main() -> None:
    """Read, count, answer."""
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=WorkerSpec)
    facts = msgspec.json.encode(find_facts(spec))
    sys.stdout.write("\n" + facts.decode() + "\n")  # a separate line, whatever libraries have printed


if __name__ == "__main__":
    main()
