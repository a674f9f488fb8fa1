"""What others published, as data with its source (published.csv), judged by what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from bench.report.content.collection import ReportedComparison
from bench.studies.claims.claim_tests import TESTS, ClaimAnswer

REPRODUCED, CONTRADICTED, PARTLY, UNTESTED = "reproduced", "contradicted", "partly", "not testable"

ON_CPU = "on a CPU"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One line of published.csv."""

    id: str  # names the test
    source: str  # who said it
    claim: str  # what was said
    how_to_test: str  # what must be compared
    testable_on: str  # which hardware decides it
    command: str  # that measures what must be compared


@cache
def read_claims() -> tuple[Claim, ...]:
    """The lines of published.csv, in its order."""
    rows = pd.read_csv(Path(__file__).with_name("published.csv"), dtype=str, keep_default_na=False)
    return tuple(Claim(**row) for row in rows.to_dict("records"))  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class JudgedClaim:
    """The verdict of our results on a claim."""

    claim: Claim
    verdict: str  # of `REPRODUCED`, `CONTRADICTED`, `PARTLY` and `UNTESTED`
    where: str = ""  # on what kind of device; empty for an untested claim
    reason: str = ""  # why it is untested; empty for any other verdict
    answers: Sequence[ClaimAnswer] = ()  # those of the comparisons that test it

    @property
    def commands(self) -> list[str]:
        """The commands that measured the comparisons, each once."""
        return list(dict.fromkeys(filter(None, (answer.comparison.command for answer in self.answers))))


def judge_claims(comparisons: Sequence[ReportedComparison]) -> list[JudgedClaim]:
    """Every claim judged, in the order of the file."""
    return [_judge(claim, [*TESTS[claim.id](comparisons)]) for claim in read_claims()]


def _judge(claim: Claim, answers: list[ClaimAnswer]) -> JudgedClaim:
    """Judge a claim: `PARTLY` if comparisons leave it open. A CPU is a weaker test of claims about GPUs."""
    found, on_cpu = {answer.holds for answer in answers}, {answer.comparison.on_cpu for answer in answers}
    verdict = PARTLY if True in found else CONTRADICTED
    if found <= {None}:
        verdict = UNTESTED
    elif found == {True}:
        verdict = REPRODUCED
    where = " and ".join(name for kind, name in ((True, ON_CPU), (False, "on GPUs")) if kind in on_cpu)
    reason = ""
    if not answers:
        reason = f"no comparison here tests it: {claim.how_to_test}"
    elif verdict == UNTESTED:
        reason = "the intervals allow either"
    elif where == ON_CPU and ("cpu" not in claim.testable_on or "proxy" in claim.testable_on):
        why = "which is a proxy" if "cpu" in claim.testable_on else "and the claim is of GPUs"
        reason = f"only {ON_CPU}, {why}; there"
    if reason:
        return JudgedClaim(claim=claim, verdict=UNTESTED, reason=reason, answers=answers)
    return JudgedClaim(claim=claim, verdict=verdict, where=where, answers=answers)


def verdict_words(finding: JudgedClaim) -> str:
    """The verdict, and how far it was tried: what does not hold on one machine may hold on another."""
    if finding.verdict == UNTESTED:
        return UNTESTED
    answers, rest = [answer.holds for answer in finding.answers], ""
    decided = [holds for holds in answers if holds is not None]
    machines = len({answer.comparison.machine_key for answer in finding.answers})
    words = "holds" if True in decided else "does not hold"
    if len({*decided}) > 1:
        words = "holds in part"
    elif len(decided) < len(answers):
        words, rest = f"{words} in {len(decided)} of {len(answers)} comparisons", "; the rest cannot tell"
    elif machines < 2:
        words = f"{words} here"
    else:
        words = f"holds on {'all' if True in decided else 'none of'} {machines} machines that were tried"
    return f"{words}, {finding.where}{rest}"


def evidence_lines(finding: JudgedClaim) -> list[str]:
    """Why a claim is untested, if it is, a line for each comparison, and what would judge it."""
    lines = [finding.reason] if finding.reason else []
    lines += [f"{answer.comparison.title}: {answer.words}" for answer in finding.answers]
    if finding.verdict == UNTESTED:
        where = finding.claim.testable_on.replace(",", " or ")
        lines.append(f"what would judge it: {finding.claim.command}, on {where}")
    return lines
