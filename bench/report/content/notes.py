"""Lines about single backends, and about a comparison as a whole, besides its table."""

from collections.abc import Sequence

from bench.analysis.steadiness.warnings import LOADER_SHARE
from bench.errors import PASSED
from bench.report.content.definitions import FALSE_VERDICTS
from bench.statistics.summary import BackendSummary


def backend_notes(summaries: Sequence[BackendSummary]) -> list[str]:
    """A line for each backend that has a message or failed."""
    return [
        f"{each.backend}: {'' if each.status == 'ok' else f'{each.status}: '}{each.message or 'no message'}"
        for each in summaries
        if each.message or each.status not in PASSED
    ]


def limited_by(summaries: Sequence[BackendSummary]) -> list[str]:
    """Whether loader or device limits each backend; nothing where batches were there beforehand."""
    shares: dict[str, list[str]] = {"loader": [], "device": []}
    for summary in summaries:
        if summary.loader_share is not None:
            limit = "loader" if summary.loader_share > LOADER_SHARE else "device"
            shares[limit].append(f"{summary.loader_share:.1%} ({summary.backend})")
    return [
        f"limited by the {limit}: ranks waited {', '.join(waited)} of the time for batches"
        for limit, waited in shares.items()
        if waited
    ]


def false_verdicts(summaries: Sequence[BackendSummary]) -> list[str]:
    """How many verdicts chance alone would make; nothing where there is only one."""
    judged = sum(summary.verdict is not None for summary in summaries)
    if judged < 2:
        return []
    return [
        f"were all {judged} backends as fast as the reference, {FALSE_VERDICTS * judged:.2g} of their "
        "verdicts would be faster or slower by chance alone"
    ]
