"""Speech recognition by CTC: the text of a sound wave, as wav2vec 2.0 is fine-tuned."""

from typing import Any

import numpy as np
from numpy.random import Generator

from bench.worker.workload import tasks
from bench.worker.workload.tasks import IGNORED, Arrays, Integers, draw_tokens, real_positions, setting


class Task(tasks.Task):
    """Predicts a token or a blank at each of the `seq_len` positions that convolutions make of the wave."""

    head = "AutoModelForCTC"

    def draw(self, settings: Any, *, lengths: Integers, seq_len: int | None, random: Generator) -> Arrays:
        """Normal noise, float32 of shape (micro_batch, samples), and tokens for half of the positions.

        CTC needs a blank between two equal tokens, so that half always fit. Behind its length a wave is 0.
        Models with group normalisation were trained so; others get an attention mask.
        """
        assert seq_len is not None, "bench.config.schema sees to it"
        ends = _wave_lengths(lengths, settings)
        there = np.arange(_wave_lengths(np.array([seq_len]), settings)[0]) < ends[:, None]
        waves = np.where(there, random.standard_normal(there.shape, dtype=np.float32), np.float32(0))
        words = real_positions(np.maximum(1, lengths // 2), max(1, seq_len // 2))
        labels = np.where(words == 1, draw_tokens(settings, mask=words, random=random), IGNORED)
        masked = setting(settings, "feat_extract_norm", "group") != "group"
        mask = {"attention_mask": there.astype(np.int64)} if masked else {}
        return {"input_values": waves, "labels": labels} | mask


def _wave_lengths(positions: Integers, settings: Any) -> Integers:
    """The fewest samples that convolutions without padding turn into these numbers of positions."""
    kernels, strides = setting(settings, "conv_kernel"), setting(settings, "conv_stride")
    for kernel, stride in zip(reversed(kernels), reversed(strides), strict=True):
        positions = (positions - 1) * stride + kernel
    return positions
