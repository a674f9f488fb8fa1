"""What the comparisons say about a claim, in words."""

from bench.analysis.claims.evidence import (
    Checkpointing,
    ChoiceSwapped,
    ClaimAnswer,
    ColumnChanged,
    LargestBatches,
    OverBestPyTorch,
    OverReference,
    PeakMemory,
    StateBytes,
    StateShared,
    WeightBytes,
)
from bench.analysis.claims.judge import CONTRADICTED, PARTLY, REPRODUCED, UNTESTED, JudgedClaim
from bench.analysis.comparison_results import ComparisonResults
from bench.report.content.backend_columns import what_runs
from bench.report.content.collection import ReportedComparison
from bench.report.words import describe
from bench.report.words.formatting import number, ratio_and_interval


def verdict_words(finding: JudgedClaim) -> str:
    """The verdict, and how far it was tried: what does not hold on one machine may hold on another."""
    tried = finding.machines
    everywhere = f"on all {tried} machines that were tried" if tried > 1 else "here"
    words = {
        REPRODUCED: f"holds {everywhere}",
        PARTLY: "holds in part",
        CONTRADICTED: f"holds on none of {tried} machines that were tried"
        if tried > 1
        else "does not hold here",
        UNTESTED: UNTESTED,
    }[finding.verdict]
    return f"{words}, {finding.where}" if finding.where else words


def evidence_lines(finding: JudgedClaim) -> list[str]:
    """Why a claim is untested, if it is, a line for each comparison, and what would judge it."""
    lines = [finding.reason] * bool(finding.reason) + [_answer(answer) for answer in finding.answers]
    if finding.verdict != UNTESTED:
        return lines
    where = finding.claim.testable_on.replace(",", " or ")
    return [*lines, f"what would judge it: {finding.claim.command}, on {where}"]


def name_of(comparison: ComparisonResults) -> str:
    """Its title where it is one of a report, else its file."""
    return comparison.title if isinstance(comparison, ReportedComparison) else comparison.stem


def _answer(answer: ClaimAnswer) -> str:
    comparison, evidence = answer.comparison, answer
    name, rows = name_of(comparison), comparison.rows
    where = f"on {describe.hardware(rows)}"
    match evidence:
        case OverReference(backend=one, speedup=speedup):
            said = f"{one.backend} ({what_runs(one)}) {ratio_and_interval(speedup)}"
            return f"{name}: {said} over {comparison.reference} {where}"
        case OverBestPyTorch(backend=one, speedup=speedup):
            best = next(each.backend for each in comparison.summaries if each.is_best_pytorch)
            return f"{name}: {one.backend} {ratio_and_interval(speedup)} over {best}, the best PyTorch there"
        case ChoiceSwapped():
            said = f"{evidence.after} {ratio_and_interval(evidence.speedup)}"
            return f"{name}: {said} over {evidence.before} {where}"
        case ColumnChanged():
            return (
                f"{name} against {name_of(evidence.other)}: {comparison.reference} with {evidence.column} "
                f"{evidence.value} runs at {ratio_and_interval(evidence.ratio)} of {evidence.other_value}, "
                f"on {describe.hardware(rows)}"
            )
        case Checkpointing():
            return (
                f"{name} against {name_of(evidence.without)}: {comparison.reference} with checkpointing runs "
                f"at {ratio_and_interval(evidence.ratio)}, {where}"
            )
        case LargestBatches():
            close = "" if evidence.distinguishable else ", no further apart than the search tells"
            return (
                f"{name}: the largest micro-batch is {evidence.ortmodule} with ortmodule and "
                f"{evidence.pytorch} with pytorch{close}, {where}; "
                f"{describe.largest_batch_rule(rows)}"
            )
        case PeakMemory():
            before, after = number(evidence.before_mib), number(evidence.after_mib)
            return f"{name}: its peak memory goes from {before} to {after} MiB"
        case StateBytes():
            size = f"{evidence.bytes_per_parameter:.2f} bytes"
            return f"{name}: {evidence.backend} holds {size} per trained parameter"
        case WeightBytes():
            size = f"{evidence.bytes_per_parameter:.2f} bytes"
            return f"{name}: in {evidence.precision} {evidence.backend} holds {size} of weights per parameter"
        case StateShared():
            return (
                f"{name}: {evidence.shared} holds {evidence.share:.3f} of {evidence.whole}'s optimizer state "
                f"on each of {evidence.ranks} ranks"
            )
    raise TypeError(f"no words for {type(answer).__name__}")
