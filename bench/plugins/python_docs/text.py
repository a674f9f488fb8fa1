"""The text of `data=python_docs`, byte by byte, which Python ships for `help()`, and windows of it as tokens.

A sample is a window of `seq_len` bytes; no two overlap, and nothing is padded.
"""

import hashlib
from collections.abc import Iterator
from functools import cache

import numpy as np

from bench.worker.workload.order import Order
from bench.worker.workload.tasks import IGNORED, Arrays, Integers, hidden

NAME = "python_docs"

TASKS = ("causal-lm", "masked-lm")  # what can be learnt from a text without labels

FIRST_ID = 8
"""The token of byte 0. Smaller ids are those with which most models pad, begin and end."""

BYTES = 256
MASK_ID = FIRST_ID + BYTES
VOCABULARY = MASK_ID + 1  # how many words a model must know
HELD_OUT_PART = 10  # the last 1/10 of the bytes is never trained on

HELD_OUT_WINDOWS = 128
"""At most 128 windows of the held-out part are evaluated, evenly spread: an evaluation should be quick."""

HELD_OUT_SEED = 1  # seeds what is masked in them, which is the same in every evaluation


@cache
def text() -> bytes:
    """All topics, in the order of their names, in UTF-8."""
    from pydoc_data.topics import topics  # half a megabyte, needed only here

    return "\n\n".join(topics[name] for name in sorted(topics)).encode()


def split() -> tuple[bytes, bytes]:
    """The part that is trained on, and the part that is held out."""
    whole = text()
    end = len(whole) - len(whole) // HELD_OUT_PART
    return whole[:end], whole[end:]


def digest() -> str:
    """A digest that distinguishes this text from that of another version of Python."""
    return hashlib.sha256(text()).hexdigest()[:12]


def training_batches(windows: Integers, order: Order, *, task: str) -> Iterator[Arrays]:
    """The endless stream of a rank's micro-batches, equal under every backend, masked anew in every epoch."""
    return (make_batch(windows[list(draw.samples)], task=task, random=draw.random()) for draw in order)


def cut(content: bytes, seq_len: int) -> Integers:
    """The bytes in windows that do not overlap, int64 of shape (windows, seq_len); the rest is left out."""
    whole = len(content) // seq_len * seq_len
    return np.frombuffer(content[:whole], dtype=np.uint8).astype(np.int64).reshape(-1, seq_len)


def make_batch(windows: Integers, *, task: str, random: np.random.Generator) -> Arrays:
    """A micro-batch of windows of bytes, int64 of shape (micro_batch, seq_len); `random` may mask."""
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
    _, held_out = split()
    windows = cut(held_out, seq_len)
    count = min(len(windows), HELD_OUT_WINDOWS)
    return windows[np.linspace(0, len(windows) - 1, num=count).astype(int)]


def held_out_batch(seq_len: int, *, task: str) -> Arrays:
    """The held-out windows as a micro-batch: always the same one, whatever the seed of the comparison."""
    random = np.random.default_rng(HELD_OUT_SEED)
    return make_batch(held_out_windows(seq_len), task=task, random=random)


def count_predicted(labels: Integers, *, task: str) -> int:
    """How many of these labels, of shape (samples, length), are predicted: a causal model skips the first."""
    predicted = labels[:, 1:] if task == "causal-lm" else labels
    return int((predicted != IGNORED).sum())
