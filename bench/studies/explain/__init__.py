"""`measure.explain=true`: where does a step's time go, and why is a backend faster?"""

from dataclasses import replace
from typing import Any

from bench.study import Study


def _ask(config: Any) -> Any:
    return replace(config, measure=replace(config.measure, explain=True))


STUDY = Study(
    answers="Where does a step's time go, and why is a backend faster?",
    command="measure.explain=true",
    is_wanted=lambda config: config.measure.explain and config.measure.launches > 0,
    adds=("says where the time goes", _ask),
    figure="breakdown",
)
