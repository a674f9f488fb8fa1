"""`measure.explain=true`: where does a step's time go, and why is a backend faster?"""

from dataclasses import replace
from typing import Any

from bench.study import Study

SHORT = ("quick", "parity", "converge")
"""Presets after which nothing is profiled, unless `measure.explain=true` asks for it."""


def _is_wanted(config: Any) -> bool:
    asked = config.measure.explain
    return config.measure.launches > 0 and (config.measure.name not in SHORT if asked is None else asked)


def _ask(config: Any) -> Any:
    return config if _is_wanted(config) else replace(config, measure=replace(config.measure, explain=True))


STUDY = Study(
    answers="Where does a step's time go, and why is a backend faster?",
    command="measure.explain=true",
    is_wanted=_is_wanted,
    adds=("says where the time goes", _ask),
)
