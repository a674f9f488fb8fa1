"""What the comparisons say about a claim, in words."""

from bench.analysis.claims import evidence
from bench.analysis.claims.judge import CONTRADICTED, PARTLY, REPRODUCED, UNTESTED, JudgedClaim
from bench.analysis.comparison_results import ComparisonResults
from bench.report.content.backend_columns import what_runs
from bench.report.content.collection import ReportedComparison
from bench.report.words import describe
from bench.report.words.formatting import number, ratio_and_interval


def verdict_words(finding: JudgedClaim) -> str:
    """The verdict, and how far it was tried: what does not hold on one machine may hold on another."""
    machines = f"{finding.machines} machines that were tried"
    holds, holds_not = f"holds on all {machines}", f"holds on none of {machines}"
    if finding.machines < 2:
        holds, holds_not = "holds here", "does not hold here"
    words = {REPRODUCED: holds, PARTLY: "holds in part", CONTRADICTED: holds_not}.get(
        finding.verdict, UNTESTED
    )
    return f"{words}, {finding.where}" if finding.where else words


def evidence_lines(finding: JudgedClaim) -> list[str]:
    """Why a claim is untested, if it is, a line for each comparison, and what would judge it."""
    lines = [finding.reason] * bool(finding.reason) + [_answer(answer) for answer in finding.answers]
    if finding.verdict == UNTESTED:
        where = finding.claim.testable_on.replace(",", " or ")
        lines.append(f"what would judge it: {finding.claim.command}, on {where}")
    return lines


def name_of(comparison: ComparisonResults) -> str:
    """Its title where it is one of a report, else its file."""
    return comparison.title if isinstance(comparison, ReportedComparison) else comparison.stem


def _answer(answer: evidence.ClaimAnswer) -> str:
    comparison = answer.comparison
    name, reference = name_of(comparison), comparison.reference
    where = f"on {describe.hardware(comparison.rows)}"
    match answer:
        case evidence.OverReference(backend=backend, speedup=speedup):
            runs = f"{backend.backend} ({what_runs(backend)}) {ratio_and_interval(speedup)}"
            return f"{name}: {runs} over {reference} {where}"
        case evidence.OverBestPyTorch(backend=backend, speedup=speedup):
            best = next(each.backend for each in comparison.summaries if each.is_best_pytorch)
            ratio = ratio_and_interval(speedup)
            return f"{name}: {backend.backend} {ratio} over {best}, the best PyTorch there"
        case evidence.ChoiceSwapped(before=before, after=after, speedup=speedup):
            return f"{name}: {after} {ratio_and_interval(speedup)} over {before} {where}"
        case evidence.ColumnChanged():
            return (
                f"{name} against {name_of(answer.other)}: {reference} with {answer.column} {answer.value} "
                f"runs at {ratio_and_interval(answer.ratio)} of {answer.other_value}, {where}"
            )
        case evidence.Checkpointing(without=without, ratio=speedup):
            ratio = ratio_and_interval(speedup)
            return (
                f"{name} against {name_of(without)}: {reference} with checkpointing runs at {ratio}, {where}"
            )
        case evidence.LargestBatches():
            close = "" if answer.distinguishable else ", no further apart than the search tells"
            return (
                f"{name}: the largest micro-batch is {answer.ortmodule} with ortmodule and {answer.pytorch} "
                f"with pytorch{close}, {where}; {describe.largest_batch_rule(comparison.rows)}"
            )
        case evidence.PeakMemory(before_mib=before_mib, after_mib=after_mib):
            return f"{name}: its peak memory goes from {number(before_mib)} to {number(after_mib)} MiB"
        case evidence.StateBytes(backend=backend_name, bytes_per_parameter=size):
            return f"{name}: {backend_name} holds {size:.2f} bytes per trained parameter"
        case evidence.WeightBytes(backend=backend_name, bytes_per_parameter=size):
            holds = f"{backend_name} holds {size:.2f} bytes of weights per parameter"
            return f"{name}: in {answer.precision} {holds}"
        case evidence.StateShared():
            return (
                f"{name}: {answer.shared} holds {answer.share:.3f} of {answer.whole}'s optimizer state on "
                f"each of {answer.ranks} ranks"
            )
    raise TypeError(f"no words for {type(answer).__name__}")
