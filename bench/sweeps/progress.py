"""What is done of a comparison, as its results file says: a sweep has no other state."""

import dataclasses

from bench.config import identity
from bench.config.schema import Config
from bench.errors import PASSED, UserError
from bench.machine import environment
from bench.measure.plan.schedule import missing_launches
from bench.measure.record.resume import rows_to_keep
from bench.results import csv_files
from bench.results.side_files import STEP_PARTS
from bench.statistics.summary import summarise
from bench.sweeps.comparisons import PlannedComparison


def is_complete(comparison: PlannedComparison) -> bool:
    """Whether the results file holds every round of every backend that did not fail, from whatever machine.

    Without resume=true nothing is: the comparison is measured anew.
    """
    config = comparison.config
    if not config.resume:
        return False
    try:
        table = csv_files.read(comparison.csv)
        earlier = rows_to_keep(
            table,
            file=str(comparison.csv),
            config_hash=identity.config_hash(config),
            environments=dict(zip(table["backend"], table["environment"], strict=True)),
            fingerprints=dict(zip(table["backend"], table["environment_hash"], strict=True)),
        )
    except UserError:  # missing, damaged, or of another configuration
        return False
    if config.measure.parts is not None and not STEP_PARTS.path_of(comparison.csv).exists():
        return False
    untimed = set(table[table["round"].isna()]["backend"])  # failed, or trained in the parity launch alone
    timed = [name for name in config.backends if name not in untimed]
    settings = config.measure
    if not settings.launches:  # parity alone, which leaves a row of every backend
        return not timed
    if config.reference in untimed:  # nothing can be timed without it
        return True
    missing = missing_launches(
        launches=settings.launches, rounds=settings.rounds, measured=earlier.fewest_rounds(timed)
    )
    return not missing


def config_to_measure(comparison: PlannedComparison) -> Config:
    """The configuration, without `resume` where the results file cannot be gone on with on this machine."""
    if _is_of_this_environment(comparison):
        return comparison.config
    return dataclasses.replace(comparison.config, resume=False)


def _is_of_this_environment(comparison: PlannedComparison) -> bool:
    """Whether new rounds may be added to the results file; True if there is none."""
    config = comparison.config
    try:
        table = csv_files.read(comparison.csv)
    except UserError:
        return not comparison.csv.exists()
    if set(table["config_hash"]) != {identity.config_hash(config)}:
        return False
    here = {
        name: environment.hash_environment(identity.collect_environment(config, backend.stack))
        for name, backend in config.backends.items()
    }
    rows = zip(table["backend"], table["environment_hash"], strict=True)
    return all(here[name] == fingerprint for name, fingerprint in rows)


def failed_backends(comparison: PlannedComparison) -> str:
    """The backends without a result and why, as in `compile oom, pytorch_zero1 invalid`; blank if none."""
    summaries = summarise(csv_files.read(comparison.csv))
    return ", ".join(f"{each.backend} {each.status}" for each in summaries if each.status not in PASSED)
