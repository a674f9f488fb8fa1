"""Translation: an encoder reads one text, a decoder writes another."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import IGNORED, Arrays, Integers, TextTask, draw_tokens, setting


class Task(TextTask):
    """Predicts every token of the translation; the model makes the decoder's inputs of the labels."""

    head = "AutoModelForSeq2SeqLM"

    def targets(self, settings: Any, ids: Integers, mask: Integers, random: np.random.Generator) -> Arrays:
        """Random tokens again; a translation is as long as its source."""
        del ids
        setting(settings, "decoder_start_token_id")  # which the model puts before its labels
        translated = draw_tokens(settings, mask=mask, random=random)
        return {"labels": np.where(mask == 1, translated, IGNORED)}
