"""From the answers of a group's ranks to the figures that a record holds: one value per rank."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from bench.launch.channel import Message
from bench.results import arithmetic
from bench.results.records import Phase, Product, Roofline

MEASURED_PER_RANK = tuple(field.name for field in dataclasses.fields(Phase) if field.name != "samples")
"""What every rank's answer to `build`, `first_step` and `block` holds under the names of `Phase`."""


def per_rank(answers: Sequence[Message], key: str) -> tuple[Any, ...]:
    """One figure of every rank."""
    return tuple(answer[key] for answer in answers)


def phase_figures(answers: Sequence[Message]) -> dict[str, Any]:
    """What a `Phase` holds of every rank."""
    return {key: per_rank(answers, key) for key in MEASURED_PER_RANK}


def mean_over_ranks(answers: Sequence[Message], key: str) -> tuple[float, ...]:
    """A figure of every step, mean over the ranks."""
    return tuple(arithmetic.mean(figures) for figures in zip(*per_rank(answers, key), strict=True))


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """The mean of those that are there; None if none is."""
    known = [value for value in values if value is not None]
    return arithmetic.mean(known) if known else None


def model_figures(built: Sequence[Message]) -> dict[str, Any]:
    """What a workload holds once there is a model, from the answers to `build`."""
    return {
        "parameters": built[0]["parameters"],
        "trainable_parameters": built[0]["trainable_parameters"],
        "padding_share": mean_of_known(per_rank(built, "padding_share")),
    }


def roofline_of(answers: Sequence[Message]) -> Roofline:
    """The work of a step and the devices' limit; no limit where a rank could not time its products."""
    products = per_rank(answers, "product")
    return Roofline(
        counted=tuple((samples, flops) for samples, flops in answers[0]["counted"]),
        counted_on=answers[0]["counted_on"],
        products=() if None in products else tuple(Product(**product) for product in products),
        absent=tuple(dict.fromkeys(reason for answer in answers for reason in answer["absent"])),
    )
