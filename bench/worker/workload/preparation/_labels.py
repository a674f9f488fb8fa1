"""Labels of a dataset as numbers that fit the model."""

from collections.abc import Iterable
from typing import Any

from bench.errors import UserError


def classes(dataset: Any, column: str, task: Any) -> dict[Any, int]:
    """What each label becomes, as `numbering` says; `UserError` if the model learns no classes."""
    settings = task.settings
    problem = getattr(settings, "problem_type", None)
    if settings.num_labels == 1 or problem not in (None, "single_label_classification"):
        raise UserError(
            f"{task.where(column)} holds classes, and model.config.num_labels={settings.num_labels} with "
            f"problem_type={problem or 'null'} learns numbers; set data=synthetic, or "
            "++model.config.num_labels to two classes or more and ++model.config.problem_type=null."
        )
    return numbering(dataset[column], column, task)


def numbering(values: Iterable[Any], column: str, task: Any) -> dict[Any, int]:
    """What each label becomes: itself where it is a number, its place among all if it is a word."""
    where, labels = task.where(column), set(values)
    if all(isinstance(value, str) for value in labels):
        numbers = {value: number for number, value in enumerate(sorted(labels))}
    elif all(isinstance(value, int) for value in labels):
        numbers = {value: int(value) for value in labels}
    else:
        odd = next(value for value in labels if not isinstance(value, int))
        raise UserError(
            f"{where} must hold classes, whole numbers or words, in every row, not {odd!r:.40}; leave other "
            f"rows out, or set ++data.columns={{{column}: …}}."
        )
    low, high = min(numbers.values(), default=0), max(numbers.values(), default=0)
    if low < 0 or high >= task.settings.num_labels:
        raise UserError(
            f"{where} holds labels from {low:,} to {high:,}, but model.name={task.model} has the classes "
            f"0 to {task.settings.num_labels - 1:,}; leave rows without a class out, or set "
            f"++model.config.num_labels={high + 1}."
        )
    return numbers
