"""The published claims of bench/analysis/reference/claims.csv, judged by what this project has measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.analysis import reference
from bench.analysis.claims.evidence import ClaimAnswer
from bench.analysis.claims.testing import TESTS
from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.reference import Claim

REPRODUCED, CONTRADICTED, PARTLY, UNTESTED = "reproduced", "contradicted", "partly", "not testable"

ON_CPU = "on a CPU"

CPU = "cpu"
"""In the column `testable_on`, beside `gpu`."""


@dataclass(frozen=True, kw_only=True)
class JudgedClaim:
    """What our results say about a claim."""

    claim: Claim
    verdict: str  # of `REPRODUCED`, `CONTRADICTED`, `PARTLY` and `UNTESTED`
    where: str = ""  # on what kind of device; empty for an untested claim
    reason: str = ""  # why it is untested; empty for any other verdict
    answers: Sequence[ClaimAnswer] = ()  # those of the comparisons that test it

    @property
    def machines(self) -> int:
        """On how many machines it was tested."""
        return len({answer.comparison.machine_key for answer in self.answers})

    @property
    def commands(self) -> list[str]:
        """The commands that measured the comparisons, each once."""
        return list(dict.fromkeys(filter(None, (answer.comparison.command for answer in self.answers))))


def judge_claims(comparisons: Sequence[ComparisonResults]) -> list[JudgedClaim]:
    """A finding for every claim, in the order of the file."""
    return [_judge(claim, [*TESTS[claim.id](comparisons)]) for claim in reference.read_claims()]


def _judge(claim: Claim, answers: list[ClaimAnswer]) -> JudgedClaim:
    """The finding from a test's answers."""
    where = _device_kinds(answers)
    verdict = _verdict(answers)
    if not answers:
        return JudgedClaim(
            claim=claim, verdict=UNTESTED, reason=f"no committed comparison tests it: {claim.how_to_test}"
        )
    if verdict == UNTESTED:
        return JudgedClaim(
            claim=claim, verdict=UNTESTED, reason="the intervals allow either", answers=answers
        )
    if where == ON_CPU and (CPU not in claim.testable_on or "proxy" in claim.testable_on):
        why = "which is a proxy" if CPU in claim.testable_on else "and the claim is of GPUs"
        reason = f"only {ON_CPU}, {why}; there"
        return JudgedClaim(claim=claim, verdict=UNTESTED, reason=reason, answers=answers)
    return JudgedClaim(claim=claim, verdict=verdict, where=where, answers=answers)


def _device_kinds(answers: Sequence[ClaimAnswer]) -> str:
    """On what kind of device: a claim that was made of GPUs is tested on a CPU for what that is worth."""
    on_cpu = {answer.comparison.on_cpu for answer in answers}
    return " and ".join(name for kind, name in ((True, ON_CPU), (False, "on GPUs")) if kind in on_cpu)


def _verdict(answers: Sequence[ClaimAnswer]) -> str:
    """Of some comparisons that cannot tell and others: partly, if any of those shows the claim."""
    kinds = {answer.holds for answer in answers}
    if kinds <= {None}:
        return UNTESTED
    if kinds == {True}:
        return REPRODUCED
    return PARTLY if True in kinds else CONTRADICTED
