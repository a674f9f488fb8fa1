"""Speech recognition: the text of a spectrogram of fixed length, as Whisper does it."""

from typing import Any

import numpy as np
from numpy.random import Generator

from bench.worker.workload import tasks
from bench.worker.workload.tasks import IGNORED, Arrays, Integers, draw_tokens, real_positions, setting

FRAMES_PER_POSITION = 2
"""The stride of the encoder's second convolution (Radford et al. 2022, arXiv:2212.04356, section 2.2)."""


class Task(tasks.Task):
    """Predicts every token of the text; lengths are the text's, since all speech fills its 30 seconds."""

    head = "AutoModelForSpeechSeq2Seq"

    def draw(self, settings: Any, *, lengths: Integers, seq_len: int | None, random: Generator) -> Arrays:
        """Normal noise, float32 of shape (micro_batch, mel bins, frames), and random tokens."""
        frames = FRAMES_PER_POSITION * setting(settings, "max_source_positions")
        bins = setting(settings, "num_mel_bins")
        setting(settings, "decoder_start_token_id")  # which the model puts before its labels
        speech = random.standard_normal((len(lengths), bins, frames), dtype=np.float32)
        mask = real_positions(lengths, seq_len)
        ids = draw_tokens(settings, mask=mask, random=random)
        return {"input_features": speech, "labels": np.where(mask == 1, ids, IGNORED)}
