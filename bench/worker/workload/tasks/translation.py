"""Translation: an encoder reads one text, a decoder writes another."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import IGNORED, Arrays, Integers
from bench.worker.workload.tasks._tokens import draw, real_positions


class Task:
    """Predicts every token of the translation; the model makes the decoder's inputs of the labels."""

    head = "AutoModelForSeq2SeqLM"

    def synthetic(
        self, settings: Any, *, lengths: Integers, seq_len: int | None, random: np.random.Generator
    ) -> Arrays:
        """Random tokens on both sides; a translation is as long as its source."""
        mask = real_positions(lengths, seq_len)
        ids = draw(settings, mask=mask, random=random)
        translated = draw(settings, mask=mask, random=random)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "labels": np.where(mask.astype(bool), translated, IGNORED),
        }
