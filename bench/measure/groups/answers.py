"""From the answers of a group's ranks to the figures that a record holds: one value per rank."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from bench.launch.messages import Built, PhaseFigures
from bench.results import arithmetic
from bench.results.records import Phase

MEASURED_PER_RANK = tuple(field.name for field in dataclasses.fields(Phase) if field.name != "samples")
"""The fields of `Phase` that every rank's `PhaseFigures` holds under the same names."""


def phase_figures(answers: Sequence[PhaseFigures]) -> dict[str, Any]:
    """What a `Phase` holds of every rank."""
    return {name: tuple(getattr(answer, name) for answer in answers) for name in MEASURED_PER_RANK}


def mean_over_ranks(figures: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean over the ranks of a figure of every step; one sequence of steps for each rank."""
    return tuple(arithmetic.mean(of_a_step) for of_a_step in zip(*figures, strict=True))


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """The mean of those that are there; None if none is."""
    known = [value for value in values if value is not None]
    return arithmetic.mean(known) if known else None


def model_figures(built: Sequence[Built]) -> dict[str, Any]:
    """What a workload holds once there is a model, from the answers to `build`."""
    return {
        "attention": built[0].attention,
        "parameters": built[0].parameters,
        "trainable_parameters": built[0].trainable_parameters,
        "weights": built[0].weights,
        "padding_share": mean_of_known([answer.padding_share for answer in built]),
    }
