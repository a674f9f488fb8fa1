"""Masked language modelling, as BERT was trained."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays, Integers, TextTask, hidden, padding_token, setting

MASK_TOKEN = 103  # [MASK] in BERT's uncased vocabulary; with random weights any fixed token serves


class Task(TextTask):
    """Predicts the tokens that were hidden."""

    head = "AutoModelForMaskedLM"

    def targets(self, settings: Any, ids: Integers, mask: Integers, random: np.random.Generator) -> Arrays:
        """Some of the tokens, which are hidden among the inputs."""
        padding, vocabulary = padding_token(settings), setting(settings, "vocab_size")
        mask_token = MASK_TOKEN % vocabulary
        inputs, labels = hidden(
            ids,
            eligible=mask == 1,
            mask_token=mask_token if mask_token != padding else mask_token + 1,
            vocabulary=vocabulary,
            padding=padding,
            random=random,
        )
        return {"input_ids": inputs, "labels": labels}
