"""Multiple choice: which of several texts is right, as in SWAG."""

from typing import Any

import numpy as np
from numpy.random import Generator

from bench.worker.workload import tasks
from bench.worker.workload.tasks import Arrays, Integers, draw_tokens, real_positions

CHOICES = 4
"""Texts of a sample. Source: Zellers et al. 2018, arXiv:1808.05326 (SWAG), abstract."""


class Task(tasks.Task):
    """Scores every text of a sample; a sample of `seq_len` positions has four times as many tokens."""

    head = "AutoModelForMultipleChoice"

    def synthetic(
        self, settings: Any, *, lengths: Integers, seq_len: int | None, random: Generator
    ) -> Arrays:
        """Texts, int64 of shape (micro_batch, choices, seq_len), and the number of the right one."""
        mask = np.repeat(real_positions(lengths, seq_len)[:, None], CHOICES, axis=1)
        ids = draw_tokens(settings, mask=mask, random=random)
        right = random.integers(0, CHOICES, size=len(ids), dtype=np.int64)
        return {"input_ids": ids, "attention_mask": mask, "labels": right}
