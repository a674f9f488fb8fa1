"""What the comparisons say about a claim, in words."""

from bench.analysis.claim_evidence import (
    Answer,
    Checkpointing,
    ChoiceSwapped,
    ColumnChanged,
    LargestBatches,
    OverBestPyTorch,
    OverReference,
    PeakMemory,
    StateBytes,
    StateShared,
)
from bench.analysis.claims import Finding
from bench.report import describe
from bench.report.formatting import number, ratio_and_interval
from bench.report.summary_cells import what_runs


def evidence_lines(finding: Finding) -> list[str]:
    """Why a claim is untested, if it is, then a line for each comparison that tests it."""
    return [finding.reason] * bool(finding.reason) + [_answer(answer) for answer in finding.answers]


def _answer(answer: Answer) -> str:
    comparison, evidence = answer.comparison, answer.evidence
    stem, rows = comparison.stem, comparison.rows
    match evidence:
        case OverReference(backend=one, speedup=speedup):
            return (
                f"{stem}: {one.backend} ({what_runs(one)}) {ratio_and_interval(speedup)} over "
                f"{comparison.reference} on {describe.hardware(rows)}"
            )
        case OverBestPyTorch(backend=one, speedup=speedup):
            best = next(each.backend for each in comparison.summaries if each.is_best_pytorch)
            return f"{stem}: {one.backend} {ratio_and_interval(speedup)} over {best}, the best PyTorch there"
        case ChoiceSwapped():
            return (
                f"{stem}: {evidence.after} {ratio_and_interval(evidence.speedup)} over {evidence.before} "
                f"on {describe.hardware(rows)}"
            )
        case ColumnChanged():
            return (
                f"{stem} against {evidence.other.stem}: {comparison.reference} with {evidence.column} "
                f"{evidence.value} runs at {ratio_and_interval(evidence.ratio)} of {evidence.other_value}, "
                f"on {describe.hardware(rows)}"
            )
        case Checkpointing():
            return (
                f"{stem} against {evidence.without.stem}: {comparison.reference} with checkpointing runs at "
                f"{ratio_and_interval(evidence.ratio)}, on {describe.hardware(rows)}"
            )
        case LargestBatches():
            close = "" if evidence.distinguishable else ", no further apart than the search tells"
            return (
                f"{stem}: the largest micro-batch is {evidence.ortmodule} with ortmodule and "
                f"{evidence.pytorch} with pytorch{close}, on {describe.hardware(rows)}; "
                f"{describe.largest_batch_rule(rows)}"
            )
        case PeakMemory():
            return (
                f"{stem}: its peak memory goes from {number(evidence.before_mib)} to "
                f"{number(evidence.after_mib)} MiB"
            )
        case StateBytes():
            return (
                f"{stem}: {evidence.backend} holds {evidence.bytes_per_parameter:.2f} bytes per trained "
                "parameter"
            )
        case StateShared():
            return (
                f"{stem}: {evidence.shared} holds {evidence.share:.3f} of {evidence.whole}'s optimizer state "
                f"on each of {evidence.ranks} ranks"
            )
