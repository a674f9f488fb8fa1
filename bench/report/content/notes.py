"""Notes on the backends of one comparison, besides its table."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from bench.errors import PASSED
from bench.statistics.summary import LEFT_OUT, BackendSummary

MOST_NAMED = 2  # backends that a line names; of more it says how many


def backend_notes(summaries: Sequence[BackendSummary]) -> list[tuple[str, str]]:
    """A note, after the backend's name, for each backend that has a message or failed."""
    return [
        (each.backend, f"{'' if each.status == 'ok' else f'{each.status}: '}{each.message or 'no message'}")
        for each in summaries
        if each.message or each.status not in PASSED
    ]


def group_notes(notes: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each note, however many backends it is of; one for all that lost a few blocks."""
    backends: dict[str, list[str]] = defaultdict(list)
    lost: list[str] = []
    for backend, note in notes:
        parts = note.split("; ")
        lost += [
            f"{backend} {part.removesuffix(LEFT_OUT).strip()}" for part in parts if part.endswith(LEFT_OUT)
        ]
        if others := "; ".join(part for part in parts if not part.endswith(LEFT_OUT)):
            backends[others].append(backend)
    lines = [
        f"{', '.join(names) if len(names) <= MOST_NAMED else f'{len(names)} backends'}: {note}"
        for note, names in backends.items()
    ]
    return [*lines, f"{LEFT_OUT}: {', '.join(lost)}"] if lost else lines
