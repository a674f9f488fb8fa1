"""Windows of a real text as arrays of tokens; `bench.plugins.python_docs.text` says which text it is.

A sample is a window of `seq_len` bytes; no two overlap, and nothing is padded.
"""

from collections.abc import Iterator

import numpy as np

from bench.plugins.python_docs import text as python_docs
from bench.plugins.python_docs.text import BYTES, FIRST_ID
from bench.worker.workload.order import Order
from bench.worker.workload.tasks import IGNORED, Arrays, Integers, hidden

HELD_OUT_WINDOWS = 128
"""At most 128 windows of the held-out part are evaluated, evenly spread: an evaluation should be quick."""

HELD_OUT_SEED = 1  # seeds what is masked in them, which is the same in every evaluation


def training_batches(windows: Integers, order: Order, *, task: str) -> Iterator[Arrays]:
    """The endless stream of a rank's micro-batches, equal under every backend, masked anew in every epoch."""
    return (make_batch(windows[list(draw.samples)], task=task, random=draw.random()) for draw in order)


def cut(text: bytes, seq_len: int) -> Integers:
    """The bytes in windows that do not overlap, int64 of shape (windows, seq_len); the rest is left out."""
    whole = len(text) // seq_len * seq_len
    return np.frombuffer(text[:whole], dtype=np.uint8).astype(np.int64).reshape(-1, seq_len)


def make_batch(windows: Integers, *, task: str, random: np.random.Generator) -> Arrays:
    """A micro-batch of tokens, made of windows of bytes, int64 of shape (micro_batch, seq_len).

    `random` masks, if the task is to find out what was masked.
    """
    everywhere = np.ones_like(windows)
    if task == "causal-lm":
        ids = windows + FIRST_ID
        return {"input_ids": ids, "attention_mask": everywhere, "labels": ids.copy()}
    inputs, labels = hidden(
        windows, eligible=everywhere == 1, mask_token=BYTES, vocabulary=BYTES, padding=None, random=random
    )
    return {
        "input_ids": inputs + FIRST_ID,
        "attention_mask": everywhere,
        "labels": np.where(labels == IGNORED, IGNORED, labels + FIRST_ID),
    }


def held_out_windows(seq_len: int) -> Integers:
    """The held-out windows on which the loss is taken, int64 of shape (windows, seq_len)."""
    _, held_out = python_docs.split()
    windows = cut(held_out, seq_len)
    count = min(len(windows), HELD_OUT_WINDOWS)
    return windows[np.linspace(0, len(windows) - 1, num=count).astype(int)]


def held_out_batch(seq_len: int, *, task: str) -> Arrays:
    """The held-out windows as a micro-batch: always the same one, whatever the seed of the comparison."""
    random = np.random.default_rng(HELD_OUT_SEED)
    return make_batch(held_out_windows(seq_len), task=task, random=random)


def count_predicted(labels: Integers, *, task: str) -> int:
    """Over how many tokens a model's loss of these labels, of shape (samples, length), is a mean.

    A causal model has nothing to predict the first token from.
    """
    predicted = labels[:, 1:] if task == "causal-lm" else labels
    return int((predicted != IGNORED).sum())
