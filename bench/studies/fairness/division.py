"""Divides what an uncontrolled harness prints among settings that it leaves alone, and the backend."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.results.environment_cell import latest_environment, machine_key
from bench.statistics.intervals import Floats, Speedup, combine_samples, launch_midmeans, speedup_of_launches
from bench.statistics.summary import summarise
from bench.statistics.table_values import stopped_by_width
from bench.studies.attribution.division import (
    Contribution,
    Subset,
    contribution_of,
    shapley_weights,
    subsets_of,
)


@dataclass(frozen=True, kw_only=True)
class Fairness:
    """The speed-up that an uncontrolled harness prints for a backend, and the rest with settings held."""

    backend: str  # whose speed-up over `reference` it is
    reference: str
    naive: Speedup  # with nothing held
    # what each setting adds to it, as ratios above 1 if leaving it alone flatters the backend
    parts: tuple[Contribution, ...]
    own: Speedup  # with everything held, the backend's own part; `naive` = `own` × the parts


SETTINGS = ("threads", "allocator", "blas")
"""Settings that a harness may leave alone: `device.pin_cores`, `device.allocator`, `device.blas`."""

ALWAYS_DIVIDED = frozenset({"threads", "allocator"})
"""The settings of `SETTINGS` that exist on every machine. MKL has a second path on some CPUs only."""


def attribute_to_settings(tables: Sequence[pd.DataFrame], backend: str) -> Fairness | None:
    """Divide a backend's speed-up in an uncontrolled comparison among the settings that vary and itself.

    `tables` are comparisons of the same workload, one for every combination of `SETTINGS`, or of
    `ALWAYS_DIVIDED` if blas is the same in all; of the same combination the latest counts. None unless every
    combination was measured, on the same machine with the same packages, and has a speed-up.
    """
    environments = [latest_environment(rows) for rows in tables]
    if len({(machine_key(each), str(each.get("packages"))) for each in environments}) > 1:
        return None
    combinations = {
        left_alone: rows
        for rows in sorted(tables, key=lambda rows: str(rows["started_at"].max()))
        if (left_alone := _settings_left_alone(rows)) is not None and backend in set(rows["backend"])
    }
    settings = Subset()  # that are held in some combinations and left alone in others
    if combinations:
        settings = frozenset.union(*combinations) - frozenset.intersection(*combinations)
    by_settings = {left_alone & settings: rows for left_alone, rows in combinations.items()}
    if not settings >= ALWAYS_DIVIDED or set(by_settings) != set(subsets_of(settings)):
        return None
    reference = str(by_settings[frozenset()]["reference"].iloc[0])
    launches: dict[Subset, Floats] = {}
    for subset, rows in by_settings.items():
        summaries = {summary.backend: summary for summary in summarise(rows)}
        if summaries[backend].speedup is None or str(rows["reference"].iloc[0]) != reference:
            return None
        launches[subset] = launch_midmeans(summaries[backend].log_ratios.values())
    stopped = stopped_by_width(*by_settings.values())

    def whole(left_alone: Subset) -> Speedup:
        return speedup_of_launches(list(launches[left_alone][:, np.newaxis]), stopped_by_width=stopped)

    def effect_of(setting: str) -> Speedup:
        """The setting's mean marginal effect. Comparisons were made apart, so that their errors add up."""
        weights = shapley_weights(setting, settings)
        return combine_samples([(weight, launches[subset]) for subset, weight in weights.items()], stopped)

    return Fairness(
        backend=backend,
        reference=reference,
        naive=whole(settings),
        parts=tuple(
            contribution_of(setting, "held → left alone", effect_of(setting), launches)
            for setting in SETTINGS
            if setting in settings
        ),
        own=whole(frozenset()),
    )


def _settings_left_alone(rows: pd.DataFrame) -> Subset | None:
    """The settings that this comparison does not hold; None if its rows disagree."""
    left_alone = {
        "threads": set(rows["cores_per_rank"] > rows["threads_per_rank"]),
        "allocator": set(rows["allocator"] != "tuned"),
        "blas": set(rows["blas"] != "full"),
    }
    if any(len(answers) != 1 for answers in left_alone.values()):
        return None
    return frozenset(factor for factor in SETTINGS if left_alone[factor] == {True})
