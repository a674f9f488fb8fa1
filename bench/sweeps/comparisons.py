"""From a plan to its comparisons: composed, checked against this machine, each with its results file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.analysis.labels import model_label
from bench.config import layers, sizes
from bench.config.compose import compose
from bench.config.naming import file_stem
from bench.config.schema import Config
from bench.errors import UserError
from bench.measure.plan.preflight import check_and_name_device
from bench.setup import stacks
from bench.sweeps.plan_file import Plan, PlanPart


@dataclass(frozen=True, kw_only=True)
class PlannedComparison:
    """One comparison of a sweep."""

    part: str  # the part of the plan that lists it
    expected_s: float  # the seconds that it may take; 0 if the plan does not say
    config: Config  # checked against this machine
    stem: str  # the name of its results file without the ending
    overrides: list[str]  # of Hydra, that measure it alone

    @property
    def csv(self) -> Path:
        """The path of its results file."""
        return Path(self.config.results_dir) / f"{self.stem}.csv"

    @property
    def model(self) -> str:
        """`bert-large, 6 of 24 layers`."""
        model = self.config.model
        kept = layers.count(sizes.resize(model.dimensions, model.size))
        return model_label(model.name, model.size, kept, layers.count(model.dimensions))

    @property
    def batch(self) -> str:
        """The batch of a rank: `2 x 128 tokens`, or `4`."""
        length = self.config.seq_len
        return f"{self.config.micro_batch}" + (f" x {length} tokens" if length else "")

    def __str__(self) -> str:
        return f"{self.part}: {self.stem}"


def plan_comparisons(
    plan: Plan, parts: Sequence[PlanPart], overrides: Sequence[str]
) -> list[PlannedComparison]:
    """Compose and check every comparison of these parts, so that a mistake is known before any work.

    The overrides take precedence in all comparisons; `backend=[…]` replaces the plan's backends.

    Raises:
        UserError: an override is wrong, this machine lacks something, or two comparisons are the same.
    """
    planned = [comparison for part in parts for comparison in _comparisons_of(part, plan, overrides)]
    files = [comparison.csv for comparison in planned]
    if twice := next((path for path in files if files.count(path) > 1), None):
        raise UserError(f"two comparisons of the plan are the same and would both write {twice}.")
    return planned


def _comparisons_of(part: PlanPart, plan: Plan, overrides: Sequence[str]) -> Iterator[PlannedComparison]:
    backends = plan.backend_overrides(overrides)
    for model, own in part.overrides_by_model.items():
        key = "model.pretrained" if "/" in model else "model"  # the folder of a config.json, or a preset
        line = [*plan.common, *part.overrides, f"{key}={model}", *backends, *own, *overrides]
        config = compose(line)
        yield PlannedComparison(
            part=part.name,
            expected_s=part.expected_by_model.get(model, part.expected_s),
            config=config,
            stem=file_stem(config, check_and_name_device(config), line, stacks.own()),
            overrides=line,
        )
