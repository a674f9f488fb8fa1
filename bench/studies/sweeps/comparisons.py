"""From a plan to its comparisons, composed and checked; only its results file says what is done of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.config import identity
from bench.config.compose import compose
from bench.config.schema import Config
from bench.errors import PASSED, UserError
from bench.measure.plan.preflight import check_and_name
from bench.measure.plan.schedule import missing_launches
from bench.measure.record.resume import rows_to_keep
from bench.results import csv_files
from bench.statistics.summary import summarise
from bench.studies.collectives.table import TABLE as COLLECTIVES
from bench.studies.sweeps.plan_file import Plan, PlanPart
from bench.study import find_studies


@dataclass(frozen=True, kw_only=True)
class PlannedComparison:
    """One comparison of a sweep."""

    part: str  # the part of the plan that lists it
    config: Config  # checked against this machine
    stem: str  # the name of its results file without the ending

    @property
    def csv(self) -> Path:
        """The path of its results file."""
        return Path(self.config.results_dir) / f"{self.stem}.csv"

    def __str__(self) -> str:
        return f"{self.part}: {self.stem}"


def plan_comparisons(
    plan: Plan, parts: Sequence[PlanPart], overrides: Sequence[str]
) -> list[PlannedComparison]:
    """Compose and check all comparisons of these parts before any work; `overrides` win in each."""
    planned = [comparison for part in parts for comparison in _comparisons_of(part, plan, overrides)]
    files = [comparison.csv for comparison in planned]
    if twice := next((path for path in files if files.count(path) > 1), None):
        raise UserError(f"two comparisons of the plan are the same and would both write {twice}.")
    return planned


def _comparisons_of(part: PlanPart, plan: Plan, overrides: Sequence[str]) -> Iterator[PlannedComparison]:
    backends = plan.backend_overrides(overrides)
    smaller = plan.on_cpu
    if smaller is not None and compose([*plan.common, *overrides]).device.type != "cpu":
        smaller = None
    for model, own in part.overrides_by_model.items():
        key = "model.pretrained" if "/" in model else "model"  # the folder of a config.json, or a preset
        line = [*plan.common, *part.overrides, f"{key}={model}", *backends, *own]
        if smaller is not None:
            line += [*smaller.overrides, *smaller.by_model.get(model, [])]
        config = compose([*line, *overrides])
        try:
            yield PlannedComparison(part=part.name, config=config, stem=check_and_name(config))
        except UserError as error:
            raise UserError(f"{model} of the part {part.name}: {error}") from error


def is_complete(comparison: PlannedComparison) -> bool:
    """Whether resume=true keeps a file that holds every round of every backend that did not fail."""
    config = comparison.config
    if not config.resume:
        return False
    try:
        table = csv_files.read(comparison.csv)
    except UserError:  # missing or damaged
        return False
    if set(table["config_hash"]) != {identity.config_hash(config)}:
        return False
    if find_studies()["collectives"].is_wanted(config) and not COLLECTIVES.path_of(comparison.csv).exists():
        return False
    untimed = set(table[table["round"].isna()]["backend"])  # failed, or trained in the parity launch alone
    timed = [name for name in config.backends if name not in untimed]
    settings = config.measure
    if not settings.launches:  # parity alone, which leaves a row of every backend
        return not timed
    if config.reference in untimed:  # nothing can be timed without it
        return True
    measured = rows_to_keep(table).fewest_rounds(timed)
    return not missing_launches(launches=settings.launches, rounds=settings.rounds, measured=measured)


def failed_backends(comparison: PlannedComparison) -> str:
    """The backends without a result and why, as in `compile oom, pytorch_zero1 invalid`; blank if none."""
    summaries = summarise(csv_files.read(comparison.csv))
    return ", ".join(f"{each.backend} {each.status}" for each in summaries if each.status not in PASSED)
