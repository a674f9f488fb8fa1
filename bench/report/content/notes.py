"""Notes on the backends of one comparison, besides its table."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from bench.errors import PASSED
from bench.statistics.summary import BackendSummary

MOST_NAMED = 2  # backends that a line names; of more it says how many


def backend_notes(summaries: Sequence[BackendSummary]) -> list[tuple[str, str]]:
    """A note, after the backend's name, for each backend that has a message or failed."""
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
    return [
        f"{', '.join(names) if len(names) <= MOST_NAMED else f'{len(names)} backends'}: {note}"
        for note, names in backends.items()
    ]
