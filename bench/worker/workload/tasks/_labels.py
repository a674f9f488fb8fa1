"""Labels of whole samples, by the loss that transformers' classification heads take."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays


def draw_labels(settings: Any, *, count: int, random: np.random.Generator) -> Arrays:
    """Random labels of `count` samples.

    Classes, int64 of shape (count,). With `num_labels=1`, or a `problem_type` that says so, what is learnt
    are numbers, or for each class whether it applies: float32 of shape (count,) or (count, num_labels).
    """
    classes, problem = settings.num_labels, getattr(settings, "problem_type", None)
    shape = (count,) if classes == 1 else (count, classes)
    if problem == "multi_label_classification":
        return {"labels": random.integers(0, 2, size=(count, classes)).astype(np.float32)}
    if problem == "regression" or (problem is None and classes == 1):
        return {"labels": random.standard_normal(shape, dtype=np.float32)}
    return {"labels": random.integers(0, classes, size=count, dtype=np.int64)}
