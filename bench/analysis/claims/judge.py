"""The published claims of bench/analysis/reference/claims.csv, judged by what this project has measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.analysis import reference
from bench.analysis.claims import speedups
from bench.analysis.claims.evidence import ClaimAnswer
from bench.analysis.claims.memory import (
    LOW_BIT_TOLERANCE,
    larger_batch,
    state_bytes,
    state_is_shared,
    weights_kept_twice,
)
from bench.analysis.claims.speedups import ClaimTest, faster_with, swap
from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.reference import BLOG_BAND, Claim

REPRODUCED, CONTRADICTED, PARTLY, UNTESTED = "reproduced", "contradicted", "partly", "not testable"

ON_CPU = "on a CPU"

CPU = "cpu"
"""In the column `testable_on`, beside `gpu`."""


TESTS: dict[str, ClaimTest] = {
    "ort-standalone": speedups.speedup_at_least("ortmodule", 1.0),
    "ort-zero1": speedups.speedup_at_least("ortmodule_zero1", BLOG_BAND[0]),
    "ort-1.5x": speedups.speedup_at_least("ortmodule", 1.5),
    "ort-max-batch": larger_batch,
    "fused-adam": faster_with("optimizer", speedups.fuses_adamw, suits=speedups.steps_by_parameter),
    "zero1-memory": state_is_shared,
    "zero1-not-for-small": speedups.zero1_slower_on_one_rank,
    "accumulation-slows": speedups.accumulation_slower,
    "checkpointing-20": speedups.checkpointing,
    "fp16-memory": weights_kept_twice,
    "tf32-3x": speedups.tf32_up_to_3_times,
    "adamw-8-bytes": state_bytes("pytorch", 8),
    "adafactor-4-bytes": state_bytes("pytorch_adafactor", 4, LOW_BIT_TOLERANCE),
    "adam8bit-2-bytes": state_bytes("pytorch_8bit", 2, LOW_BIT_TOLERANCE),
    "dataloader": faster_with("loader", speedups.improves_loader),
    "torch-compile": faster_with("engine", swap("eager", "compile")),
    "sdpa": speedups.torch_attention_faster,
    "batch-multiple-8": speedups.multiples_of_8_faster,
}
"""How each claim is tested, by its id."""


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
    """Every claim judged, in the order of the file."""
    return [_judge(claim, [*TESTS[claim.id](comparisons)]) for claim in reference.read_claims()]


def _judge(claim: Claim, answers: list[ClaimAnswer]) -> JudgedClaim:
    """Partly reproduced, where some comparisons cannot tell and others show the claim.

    A claim that was made of GPUs is tested on a CPU for what that is worth.
    """
    found, on_cpu = {answer.holds for answer in answers}, {answer.comparison.on_cpu for answer in answers}
    verdict = PARTLY if True in found else CONTRADICTED
    if found <= {None}:
        verdict = UNTESTED
    elif found == {True}:
        verdict = REPRODUCED
    where = " and ".join(name for kind, name in ((True, ON_CPU), (False, "on GPUs")) if kind in on_cpu)
    reason = ""
    if not answers:
        reason = f"no committed comparison tests it: {claim.how_to_test}"
    elif verdict == UNTESTED:
        reason = "the intervals allow either"
    elif where == ON_CPU and (CPU not in claim.testable_on or "proxy" in claim.testable_on):
        why = "which is a proxy" if CPU in claim.testable_on else "and the claim is of GPUs"
        reason = f"only {ON_CPU}, {why}; there"
    if reason:
        return JudgedClaim(claim=claim, verdict=UNTESTED, reason=reason, answers=answers)
    return JudgedClaim(claim=claim, verdict=verdict, where=where, answers=answers)
