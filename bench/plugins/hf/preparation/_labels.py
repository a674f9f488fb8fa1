"""Labels of a dataset as numbers that fit the model."""

from collections.abc import Iterable
from typing import Any

from bench.errors import UserError
from bench.plugins.hf.preparation._source import first_words


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
    try:
        labels = dataset.unique(column)
    except Exception:  # `unique` does not take lists
        labels = dataset[column]
    if None in labels:
        raise UserError(
            f"{task.where(column)} must hold one class per sample, and a row has none; leave such rows out, "
            f"or set ++data.columns={{{column}: …}}."
        )
    return numbering(dataset.features[column], labels, column, task)


def numbering(feature: Any, values: Iterable[Any], column: str, task: Any) -> dict[Any, int]:
    """What each label becomes: itself where it is a number, its place among the sorted ones if it is a word.

    `values` are those that occur, repeated or not; a `feature` that is a ClassLabel of `datasets` knows more.
    """
    where = task.where(column)
    try:
        labels = sorted(set(values))
    except TypeError as error:
        raise UserError(
            f"{where} must hold one class per sample, a whole number or a word, and in every row "
            f"({first_words(error)}); leave other rows out, or set ++data.columns={{{column}: …}}."
        ) from error
    if all(isinstance(value, str) for value in labels):
        numbers = {value: number for number, value in enumerate(labels)}
    elif all(isinstance(value, int) for value in labels):
        numbers = {value: int(value) for value in labels}
    else:
        raise UserError(
            f"{where} must hold classes, whole numbers or words, not {labels[0]!r}; "
            f"set ++data.columns={{{column}: …}}."
        )
    low, high = min(numbers.values(), default=0), max(numbers.values(), default=0)
    if low < 0:
        raise UserError(
            f"{where} holds the label {low}, but classes count from 0; leave such rows out "
            "(a test split without labels often has -1: set data.split=train)."
        )
    known, classes = task.settings.num_labels, max(high + 1, getattr(feature, "num_classes", 0))
    if classes > known:
        raise UserError(
            f"{where} has {classes:,} classes, counted from 0, but model.name={task.model} has {known:,}; "
            f"correct the labels, or set ++model.config.num_labels={classes}."
        )
    return numbers
