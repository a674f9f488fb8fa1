"""Causal language modelling: the next token, at every real position."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import IGNORED, Arrays, Integers, TextTask


class Task(TextTask):
    """Predicts the next token; the model shifts the labels itself."""

    head = "AutoModelForCausalLM"

    def targets(self, settings: Any, ids: Integers, mask: Integers, random: np.random.Generator) -> Arrays:
        """The tokens themselves."""
        del settings, random
        return {"labels": np.where(mask == 1, ids, IGNORED)}
