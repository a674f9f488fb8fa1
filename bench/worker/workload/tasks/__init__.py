"""The training tasks: one module each, which names the model's head and makes random batches."""

from importlib import import_module
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from bench.errors import LaunchFailed

Integers = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]
"""A micro-batch: the names of the model's inputs, each an array whose first axis is the sample."""

IGNORED = -100  # the label that torch's cross entropy leaves out
IMAGE_SIZE = 224  # pixels of a side where the architecture takes any: as most are trained with ImageNet

MASKED_SHARE = 0.15
"""Share of the real tokens that BERT predicts; of these 80 % become [MASK] and 10 % a random token.

Source: Devlin et al. 2018, arXiv:1810.04805, section 3.1.
"""


class Task(Protocol):
    """What a task makes of a model's configuration."""

    head: str  # the transformers class that holds the head, an `AutoModelFor…`

    def draw(self, settings: Any, *, lengths: Integers, seq_len: int | None, random: Generator) -> Arrays:
        """A random micro-batch; `lengths` without padding, shape (micro_batch,), are from 1 to `seq_len`."""


class TextTask(Task):
    """Random tokens with their attention mask; a task's own part is `targets`."""

    def draw(self, settings: Any, *, lengths: Integers, seq_len: int | None, random: Generator) -> Arrays:
        """Inputs, int64 of shape (micro_batch, seq_len), and targets."""
        mask = real_positions(lengths, seq_len)
        ids = draw_tokens(settings, mask=mask, random=random)
        return {"input_ids": ids, "attention_mask": mask} | self.targets(settings, ids, mask, random)

    def targets(self, settings: Any, ids: Integers, mask: Integers, random: Generator) -> Arrays:
        """What is learnt of these tokens; an input of the same name is replaced."""
        raise NotImplementedError


class ImageTask(Task):
    """Random pictures, which have no length and no padding; a task's own part is `targets`."""

    def draw(self, settings: Any, *, lengths: Integers, seq_len: int | None, random: Generator) -> Arrays:
        """Normal noise, as pixels are after normalisation: float32 (micro_batch, channels, height, width)."""
        del seq_len  # bench.config.schema sees to it that there is none
        height, width = np.broadcast_to(setting(settings, "image_size", IMAGE_SIZE), 2).tolist()
        shape = (len(lengths), setting(settings, "num_channels", 3), height, width)
        pixels = random.standard_normal(shape, dtype=np.float32)
        return {"pixel_values": pixels} | self.targets(settings, shape, random)

    def targets(self, settings: Any, shape: tuple[int, int, int, int], random: Generator) -> Arrays:
        """What is learnt of pictures of shape (micro_batch, channels, height, width)."""
        raise NotImplementedError


def setting(settings: Any, key: str, default: Any = None) -> Any:
    """What a model's configuration, or one inside it such as CLIP's `vision_config`, has under a key."""
    inner = [value for value in vars(settings).values() if hasattr(value, "model_type")]
    values = (getattr(part, key, None) for part in (settings, *inner))
    value = next((value for value in values if value is not None), default)
    if value is None:
        raise LaunchFailed(
            "unsupported",
            f"{type(settings).__name__} has no {key}, which this task needs; set ++model.config.{key}=…, or "
            "choose another model.task.",
        )
    return value


def make(name: str) -> Task:
    """The task called `name`."""
    task: Task = import_module(f"bench.worker.workload.tasks.{name.replace('-', '_')}").Task()
    return task


def draw_labels(settings: Any, *, count: int, random: Generator) -> Arrays:
    """Random classes, int64 of shape (count,).

    With `num_labels=1`, or a `problem_type` that says so, numbers, or for each class whether it applies:
    float32 of shape (count,) or (count, num_labels).
    """
    classes, problem = settings.num_labels, getattr(settings, "problem_type", None)
    shape = (count,) if classes == 1 else (count, classes)
    if problem == "multi_label_classification":
        return {"labels": random.integers(0, 2, size=(count, classes)).astype(np.float32)}
    if problem == "regression" or (problem is None and classes == 1):
        return {"labels": random.standard_normal(shape, dtype=np.float32)}
    return {"labels": random.integers(0, classes, size=count, dtype=np.int64)}


def real_positions(lengths: Integers, seq_len: int | None) -> Integers:
    """The attention mask, int64 of shape (micro_batch, seq_len): 1 where there is a token, padding behind."""
    assert seq_len is not None, "a task over tokens has a length; bench.config.schema sees to it"
    return (np.arange(seq_len) < lengths[:, None]).astype(np.int64)


def padding_token(settings: Any) -> int:
    """The id that pads: the model's own, since some take positions or the last token from it, else 0."""
    token: int = setting(settings, "pad_token_id", 0)
    return token if 0 <= token < setting(settings, "vocab_size") else 0


def draw_tokens(settings: Any, *, mask: Integers, random: Generator) -> Integers:
    """Random ids where `mask` is 1, the padding's, and only there, where it is 0: int64, shaped as `mask`."""
    padding = padding_token(settings)
    return np.where(mask == 1, _draw(setting(settings, "vocab_size"), padding, mask.shape, random), padding)


def _draw(vocabulary: int, padding: int | None, shape: tuple[int, ...], random: Generator) -> Integers:
    """Random ids, int64, none of which is the padding's."""
    ids = random.integers(0, vocabulary - (padding is not None), size=shape, dtype=np.int64)
    return ids if padding is None else ids + (ids >= padding)


def hidden(
    ids: Integers, *, eligible: Any, mask_token: int, vocabulary: int, padding: int | None, random: Generator
) -> tuple[Integers, Integers]:
    """Inputs and labels of `ids`, int64 of shape (batch, length); `eligible` is true where there is a word.

    A row in which nothing was chosen gets its first eligible token: without a label its loss is undefined.
    No token gets the id `padding`, by which ONNX Runtime takes out padding.
    """
    chosen = (random.random(ids.shape) < MASKED_SHARE) & eligible
    without = np.flatnonzero(~chosen.any(axis=1) & eligible.any(axis=1))
    chosen[without, eligible[without].argmax(axis=1)] = True
    fate = random.random(ids.shape)
    others = _draw(vocabulary, padding, ids.shape, random)
    inputs = np.where(chosen & (fate < 0.8), mask_token, ids)
    inputs = np.where(chosen & (fate >= 0.8) & (fate < 0.9), others, inputs)
    return inputs.astype(np.int64), np.where(chosen, ids, IGNORED)
