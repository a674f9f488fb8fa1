"""What the profiles of fake groups say, and made-up breakdowns of many models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.studies.explain.messages import FinishProfile, ProfileSteps, RoundProfiled, StepsProfiled
from bench.studies.explain.operator_kinds import HOST, Operator, ProfiledRound
from bench.studies.explain.table import TABLE
from tests.support.fakes import OF_STUDIES, FakeGroup
from tests.support.many_models import ELEVEN, Model, table_of
from tests.support.many_models import comparison as of_model


def _profile(group: FakeGroup, request: ProfileSteps, rank: int) -> RoundProfiled:
    assert group.spec.profiled_groups
    profiles = group.counts["profile"]
    disturbed = group.script.get("profiles_disturbed", {}).get(profiles, 0.0)
    seconds = group.script["step_seconds"] * request.steps * (1 + disturbed)
    if request.counted and rank == 0:
        if request.replaces:
            group.noted.pop()
        group.noted.append(_round(seconds, request.steps))
    return RoundProfiled(
        settled=profiles >= group.script.get("settled_after", 1),
        seconds=seconds,
        other_cpu_seconds=seconds * disturbed,
        stolen_seconds=None,
    )


def _finish(group: FakeGroup, request: FinishProfile, rank: int) -> StepsProfiled:
    return StepsProfiled(rounds=group.noted)


def _round(seconds: float, steps: int) -> ProfiledRound:
    product = Operator(library="torch", name="aten::mm", part="", calls=2 * steps, seconds=0.75 * seconds)
    host = Operator(library="torch", name=HOST, part="", calls=0, seconds=0.25 * seconds)
    return ProfiledRound(steps=steps, seconds=seconds, operators=[product, host])


OF_STUDIES.update({ProfileSteps: _profile, FinishProfile: _finish})


def write_breakdowns(
    folder: Path, models: tuple[Model, ...] = ELEVEN, profiled: Mapping[str, float] | None = None
) -> None:
    """A breakdown beside each results file: three quarters of every step in matrix products.

    The profiled steps of some backends may take so many times as long as their timed ones.
    """
    golden = table_of(ELEVEN[0]).iloc[0]
    described = {column: str(golden[column]) for column in ("config_hash", "environment_hash", "stack")}
    described |= {"started_at": "2026-11-23T14:00:00+00:00", "git_commit": "0123456789ab"}
    for model in models:
        summaries = [one for one in of_model(model).summaries if one.samples_per_s]
        rows = [
            {**described, "backend": one.backend, "round": number, "steps": 1, "profiled_step_s": step, **row}
            for one in summaries
            for step in [(profiled or {}).get(one.backend, 1) * STEP_SAMPLES / (one.samples_per_s or 1)]
            for number in (1, 2)
            for row in _operators(step)
        ]
        TABLE.write(TABLE.path_of(folder / f"{model.name}-cpux2.csv"), rows)


STEP_SAMPLES = 16
"""The global batch of the recorded file."""

PARTS = {
    "matrix products": 0.60, "softmax": 0.05, "normalisation": 0.05, "elementwise": 0.06, "embedding": 0.01,
    "loss": 0.02, "dropout": 0.04, "copies": 0.04, "optimizer": 0.08, "host": 0.03,
}  # fmt: skip
"""Of every made-up step; two hundredths are in no profile."""


def _operators(step: float) -> list[dict[str, Any]]:
    """The operators of a profiled step, one for each kind of work."""
    named = {"library": "torch", "part": "", "calls_per_step": 1}
    return [
        {**named, "kind": kind, "operator": f"aten::{kind}", "seconds_per_step": part * step}
        for kind, part in PARTS.items()
    ]
