"""A loss with label smoothing or class weights, computed within the model's forward under all engines."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, log_softmax, nll_loss

from bench.config.model import Model
from bench.errors import UserError
from bench.worker.workload import tasks
from bench.worker.workload.layers import replace_forward
from bench.worker.workload.tasks import IGNORED

POSITIONS = 16  # of the sample on which a head's own loss is looked at


class ClassWeights(torch.nn.Module):
    """Class weights that go to the model's device and stay in float32, whatever the model is cast to.

    DeepSpeed's 16-bit modes would cast a buffer, and change the loss.
    """

    def __init__(self, values: torch.Tensor | None) -> None:
        super().__init__()
        self.values = values

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> "ClassWeights":
        if self.values is not None:
            self.values = self.values.to(fn(self.values).device)
        return super()._apply(fn, recurse)


def replace_loss(model: torch.nn.Module, settings: Model, *, check: bool) -> None:
    """Let the model compute `smoothed_loss` from its head's logits, in place, where `settings` ask for it.

    In evaluation mode the loss stays the head's own, so that held-out losses can be compared. `UserError` if
    the labels of this model's configuration do not fit, or, with `check`, its head's own loss.
    """
    if not settings.changes_loss:
        return
    settings.check_labels(model.config.num_labels, model.config.problem_type)
    if check and model.config._attn_implementation != "flash_attention_2":  # which runs on no CPU
        _check_own_loss(model, settings.task)
    given, smoothing = settings.class_weights, settings.label_smoothing
    model.class_weights = ClassWeights(None if given is None else torch.tensor(given))
    model.accepts_loss_kwargs = False  # Trainer then averages over micro-batches, as the bare loop does
    inner = model.forward.__func__

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.training or "labels" not in kwargs:
            return inner(self, *args, **kwargs)
        labels = kwargs.pop("labels")  # else the head's own loss would be computed, too
        if self.config.is_encoder_decoder and kwargs.get("decoder_input_ids") is None:
            kwargs["decoder_input_ids"] = _decoder_inputs(self, labels)
        output = inner(self, *args, **kwargs)
        weights = self.class_weights.values
        loss = _loss_of(self, output, labels, settings.task, smoothing=smoothing, weights=weights)
        return type(output)(loss=loss, **output)

    replace_forward(model, forward)


def _loss_of(
    model: Any,
    output: Any,
    labels: torch.Tensor,
    task: str,
    *,
    smoothing: float = 0,
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    if task == "causal-lm":  # each position predicts the next token; ONNX Runtime cannot slice logits in fp16
        labels = torch.cat((labels[:, 1:], torch.full_like(labels[:, :1], IGNORED)), 1)
    logits = output.logits.flatten(0, -2).float()
    loss = smoothed_loss(logits, labels.flatten(), smoothing=smoothing, weights=weights)
    balance = output.get("aux_loss")  # of a mixture's experts; heads add it themselves where they get labels
    return loss if balance is None else loss + getattr(model, "router_aux_loss_coef", 0.0) * balance


def _check_own_loss(model: Any, task: str) -> None:
    """Refuse a head whose own loss of a tiny batch is not ours without smoothing: it would change unsaid."""
    made = tasks.make(task).synthetic(
        model.config, lengths=np.array([POSITIONS]), seq_len=POSITIONS, random=np.random.default_rng(0)
    )
    taken = inspect.signature(model.forward).parameters
    batch = {name: torch.from_numpy(value) for name, value in made.items() if name in taken}
    with torch.no_grad():
        output = model.eval()(**batch)
    model.train()
    if not torch.allclose(_loss_of(model, output, batch["labels"], task), output.loss, rtol=1e-5):
        raise UserError(
            f"the loss of {type(model).__name__} is not the cross entropy alone, which label smoothing and "
            "class weights change",
            "leave model.label_smoothing and model.class_weights out",
        )


def smoothed_loss(
    logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float, weights: torch.Tensor | None
) -> torch.Tensor:
    """Return what `torch.nn.functional.cross_entropy(label_smoothing=…, weight=…)` does.

    Written out, since neither ONNX Runtime's exporter nor torch's takes label smoothing.
    Source: Szegedy et al. 2016, arXiv:1512.00567, section 7.

    Shapes are (samples, classes) of logits, in fp32, (samples,) of labels, of which `IGNORED` does not count,
    and (classes,) of weights. `smoothing` is the share of each label that is spread evenly over all classes.
    """
    if not smoothing:
        return cross_entropy(logits, labels, weights, ignore_index=IGNORED)
    logs = log_softmax(logits, dim=-1)
    hard = nll_loss(logs, labels, weights, ignore_index=IGNORED)
    counted = (labels != IGNORED).float()
    over_classes = (logs if weights is None else logs * weights).sum(-1)
    share = counted if weights is None else counted * weights[labels.clamp(min=0)]
    spread = -(over_classes * counted).sum() / (share.sum() * logits.shape[-1])
    return (1 - smoothing) * hard + smoothing * spread


def _decoder_inputs(model: Any, labels: torch.Tensor) -> torch.Tensor:
    """Return the decoder's inputs that the model would make of the labels."""
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        inputs: torch.Tensor = model.prepare_decoder_input_ids_from_labels(labels)
        return inputs
    # Whisper has no such method, only the function that it calls.
    shift = sys.modules[type(model).__module__].shift_tokens_right
    return shift(labels, model.config.pad_token_id, model.config.decoder_start_token_id)
