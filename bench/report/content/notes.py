"""Lines about single backends, and about a comparison as a whole, besides its table."""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from bench.analysis.steadiness.warnings import LOADER_SHARE, SteadinessWarning
from bench.errors import PASSED
from bench.report.content.definitions import FALSE_VERDICTS
from bench.statistics.summary import BackendSummary

MOST_NAMED = 2
"""Backends that a line names; of more it says how many."""


def backend_notes(summaries: Sequence[BackendSummary]) -> list[tuple[str, str]]:
    """What is to be known of each backend that has a message or failed, after its name."""
    return [
        (each.backend, f"{'' if each.status == 'ok' else f'{each.status}: '}{each.message or 'no message'}")
        for each in summaries
        if each.message or each.status not in PASSED
    ]


def group_notes(notes: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each note, however many backends it is of."""
    backends: dict[str, list[str]] = defaultdict(list)
    for backend, note in notes:
        backends[note].append(backend)
    return [f"{_join_names(names)}: {note}" for note, names in backends.items()]


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


def group_warnings(warnings: Sequence[SteadinessWarning]) -> list[str]:
    """A sentence for each thing that was seen, however many backends it was seen of."""
    alike: dict[tuple[str, str], list[SteadinessWarning]] = defaultdict(list)
    for warning in warnings:
        alike[_NUMBER.sub("#", warning.reason), warning.remedy].append(warning)
    return [
        str(
            dataclasses.replace(
                group[0],
                backend=_join_names([*dict.fromkeys(warning.backend for warning in group)]),
                reason=_in_ranges(group),
            )
        )
        for group in alike.values()
    ]


_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def _in_ranges(alike: Sequence[SteadinessWarning]) -> str:
    """`blocks vary 5.1 to 8.2 %`: the reason of warnings whose reasons differ in numbers alone."""
    columns = zip(*(_NUMBER.findall(warning.reason) for warning in alike), strict=True)
    by_size = [sorted(set(column), key=lambda text: float(text.replace(",", ""))) for column in columns]
    ranges = iter(" to ".join(dict.fromkeys((numbers[0], numbers[-1]))) for numbers in by_size)
    return _NUMBER.sub(lambda _: next(ranges), alike[0].reason)


def _join_names(backends: Sequence[str]) -> str:
    """`pytorch, ortmodule`, or `4 backends`."""
    return ", ".join(backends) if len(backends) <= MOST_NAMED else f"{len(backends)} backends"
