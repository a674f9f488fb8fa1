"""What ranks are asked for: steps under a profiler, and where their time went."""

from typing import ClassVar

from bench.launch.messages import Answer, Request
from bench.studies.explain.operator_kinds import ProfiledRound

RANKS = "bench.studies.explain.ranks"


class RoundProfiled(Answer, frozen=True, kw_only=True):
    """Some steps were taken under a profiler."""

    settled: bool  # none of them took much new memory from the system, which itself takes time
    seconds: float  # of all of them
    other_cpu_seconds: float | None  # that others had of the rank's cores meanwhile
    stolen_seconds: float | None


class StepsProfiled(Answer, frozen=True, kw_only=True):
    """Steps were taken under a profiler."""

    rounds: list[ProfiledRound]  # what this rank spent the steps of each round on


class ProfileSteps(Request[RoundProfiled], frozen=True, tag="profile"):
    """Take `steps` steps under a profiler, in a launch whose spec has `profiled_groups`."""

    answered_by: ClassVar[str] = RANKS
    steps: int
    counted: bool  # they are a part of what `FinishProfile` answers; else they only warm up
    replaces: bool = False  # the counted ones before, which were disturbed


class FinishProfile(Request[StepsProfiled], frozen=True, tag="finish_profile"):
    """Say where the time of the counted steps went; the last request of its launch."""

    answered_by: ClassVar[str] = RANKS
