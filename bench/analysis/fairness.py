"""How much of a speed-up comes from settings that a harness leaves alone, and not from the backend."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.analysis.attribution import Part, midmeans_by_launch
from bench.analysis.intervals import Floats, Speedup, combine_samples, speedup_of_launches
from bench.analysis.shapley import Subset, marginal, shapley_weights, subsets_of
from bench.analysis.summary import summarise
from bench.analysis.throughput import stopped_by_width
from bench.results.environment_cell import latest_environment, machine_key


@dataclass(frozen=True, kw_only=True)
class Fairness:
    """What an uncontrolled harness prints of one backend, and what is left where settings are held.

    Attributes:
        backend: whose speed-up over `reference` it is.
        naive: with nothing held.
        parts: what each setting adds to it, as ratios above 1 if leaving it alone flatters the backend.
        own: with everything held, the backend's own part; `naive` = `own` × the parts.
    """

    backend: str
    reference: str
    naive: Speedup
    parts: tuple[Part, ...]
    own: Speedup


SETTINGS = ("threads", "allocator")
"""What a harness may leave alone: `device.hold_threads` and `device.allocator`."""


def attribute_to_settings(tables: Sequence[pd.DataFrame], backend: str) -> Fairness | None:
    """Divide the speed-up of an uncontrolled comparison among `SETTINGS` and the backend itself.

    Args:
        tables: comparisons of the same workload and hardware, one for every combination of the settings.
        backend: whose speed-up over the reference is divided.

    Returns:
        None unless every combination is there, all on the same machine, and the backend has a speed-up in
        each.
    """
    if len({machine_key(latest_environment(rows)) for rows in tables}) > 1:
        return None
    by_settings: dict[Subset, pd.DataFrame] = {}
    for rows in tables:
        left_alone = _settings_left_alone(rows)
        if left_alone is not None and backend in set(rows["backend"]):
            by_settings[left_alone] = rows
    if set(by_settings) != set(subsets_of(SETTINGS)):
        return None
    reference = str(by_settings[frozenset()]["reference"].iloc[0])
    launches: dict[Subset, Floats] = {}
    for subset, rows in by_settings.items():
        summaries = {summary.backend: summary for summary in summarise(rows)}
        if summaries[backend].speedup is None or str(rows["reference"].iloc[0]) != reference:
            return None
        launches[subset] = np.array(list(midmeans_by_launch(summaries[backend]).values()))
    stopped = stopped_by_width(*by_settings.values())
    every = frozenset(SETTINGS)
    means = {subset: float(values.mean()) for subset, values in launches.items()}
    return Fairness(
        backend=backend,
        reference=reference,
        naive=speedup_of_launches([np.array([value]) for value in launches[every]], stopped_by_width=stopped),
        parts=tuple(_setting_part(factor, launches, means, stopped) for factor in SETTINGS),
        own=speedup_of_launches(
            [np.array([value]) for value in launches[frozenset()]], stopped_by_width=stopped
        ),
    )


def _settings_left_alone(rows: pd.DataFrame) -> Subset | None:
    """The settings that this comparison does not hold; None if its rows disagree."""
    left_alone = {
        "threads": set(rows["cores_per_rank"] > rows["threads_per_rank"]),
        "allocator": set(rows["allocator"] != "tuned"),
    }
    if any(len(answers) != 1 for answers in left_alone.values()):
        return None
    return frozenset(factor for factor in SETTINGS if left_alone[factor] == {True})


def _setting_part(
    factor: str,
    launches: Mapping[Subset, Floats],
    means: Mapping[Subset, float],
    stopped: bool,
) -> Part:
    """A setting's mean marginal effect. The comparisons were made apart, so that their errors add up."""
    weights = shapley_weights(factor, SETTINGS)
    contributions = [marginal(means, factor, before) for before in subsets_of(set(SETTINGS) - {factor})]
    return Part(
        factor=factor,
        change="held → left alone",
        effect=combine_samples([(weight, launches[subset]) for subset, weight in weights.items()], stopped),
        lowest=math.exp(min(contributions)),
        highest=math.exp(max(contributions)),
    )
