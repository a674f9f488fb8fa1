"""The plan of a sweep: a YAML file that lists comparisons in parts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from bench.config.choices import CONF
from bench.errors import UserError
from bench.setup import stacks

SHIPPED = CONF / "sweeps"  # the folder of the plans that can be named without their path


class PlanPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Comparisons of several models that share overrides."""

    name: str  # chooses the part on the command line (`parts=a,b`)
    # each model, alone or with its own overrides; one comparison for each
    models: list[str] | dict[str, list[str]]
    overrides: list[str] = []  # of all of the part's comparisons
    # ids of the published claims that the comparisons test (bench/studies/claims/published.csv)
    claims: list[str] = []

    @property
    def overrides_by_model(self) -> Mapping[str, Sequence[str]]:
        """Every model of the part, in order, with the overrides that are its own."""
        return self.models if isinstance(self.models, dict) else {model: [] for model in self.models}


class OnCpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes large models small enough for a machine without a GPU."""

    overrides: list[str] = []  # of all comparisons
    by_model: dict[str, list[str]] = {}  # the overrides of a model, such as fewer layers


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a plan file says."""

    parts: list[PlanPart]  # in the order in which they are measured
    # the study whose page is rebuilt from the results; the machine's report if empty
    page_of: str = ""
    common: list[str] = []  # the overrides of all comparisons
    # for each stack the backends that are compared there; where the stack is not listed, those that the
    # overrides choose
    backends: dict[str, list[str]] = {}
    failures_are_results: bool = False  # the sweep succeeds even if launches failed
    # with resume=true, a comparison is not begun again if its results file is complete, whatever machine and
    # versions it was measured with, and even if launches failed. Otherwise every comparison is begun, and
    # measures what is missing of it
    skip_complete: bool = False
    on_cpu: OnCpu | None = None  # further overrides, which come last, where no GPU is
    images: str | None = None  # a folder in which images to train on are made before anything is checked

    def backend_overrides(self, overrides: Sequence[str]) -> list[str]:
        """The override that chooses this stack's backends, unless the command line's choose others."""
        listed = self.backends.get(stacks.own())
        if listed is None or any(override.startswith("backend=") for override in overrides):
            return []
        return [f"backend=[{','.join(listed)}]"]


def load_plan(name: str) -> Plan:
    """Read a plan, by the name of a shipped one (`matrix`) or by the path of a YAML file, or refuse it."""
    shipped = {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}
    path = shipped.get(name, Path(name))
    if path.suffix != ".yaml":
        raise UserError(f"{name} is not a plan; choose from: {', '.join(shipped)}; or give a .yaml file.")
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=Plan)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {(error.strerror or 'unknown reason').lower()}.") from None
    except msgspec.DecodeError as error:  # no YAML, a key that is missing or unknown, a value of another type
        raise UserError(f"{path} is not a plan: {' '.join(str(error).split())}.") from None


def select_parts(
    plan: Plan, names: Sequence[str] | None, models: Sequence[str] | None = None
) -> Sequence[PlanPart]:
    """The parts with these names, in the plan's order; all if None. `models` replace those that they list."""
    known = [part.name for part in plan.parts]
    if unknown := [name for name in names or () if name not in known]:
        raise UserError(f"parts={','.join(unknown)} is not in the plan; choose from: {', '.join(known)}.")
    parts = [part for part in plan.parts if names is None or part.name in names]
    if models is None:
        return parts
    return [msgspec.structs.replace(part, models=_chosen(part, models)) for part in parts]


def _chosen(part: PlanPart, models: Sequence[str]) -> dict[str, list[str]]:
    """The `models` that are of this part's kind, presets or folders, each with what the part sets for it."""
    listed = part.overrides_by_model
    folders = any("/" in model for model in listed)
    return {model: list(listed.get(model, ())) for model in models if ("/" in model) == folders}
