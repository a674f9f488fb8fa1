"""What all tasks have in common whose inputs are tokens."""

from typing import Any

import numpy as np

from bench.worker.workload import tasks
from bench.worker.workload.tasks import Arrays, Integers
from bench.worker.workload.tokens import draw, real_positions


class TextTask(tasks.Task):
    """Random tokens with their attention mask; a task's own part is `targets`."""

    def synthetic(
        self, settings: Any, *, lengths: Integers, seq_len: int | None, random: np.random.Generator
    ) -> Arrays:
        """Inputs, int64 of shape (micro_batch, seq_len), and targets."""
        mask = real_positions(lengths, seq_len)
        ids = draw(settings, mask=mask, random=random)
        return {"input_ids": ids, "attention_mask": mask} | self.targets(settings, ids, mask, random)

    def targets(self, settings: Any, ids: Integers, mask: Integers, random: np.random.Generator) -> Arrays:
        """What is learnt of these tokens; an input of the same name is replaced."""
        raise NotImplementedError
