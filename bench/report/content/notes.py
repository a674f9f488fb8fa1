"""What is said of one comparison besides its table: of backends, and where time goes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from bench.analysis.breakdown import Breakdown, Difference, explain_difference
from bench.errors import PASSED
from bench.report.words.formatting import MISSING, share
from bench.statistics.intervals import Amount
from bench.statistics.summary import BackendSummary

MOST_NAMED = 2  # backends that a line names; of more it says how many


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
    return [
        f"{', '.join(names) if len(names) <= MOST_NAMED else f'{len(names)} backends'}: {note}"
        for note, names in backends.items()
    ]


# Where time goes

LEAST_SHARE = 0.01  # share of a step: a short line and the answer leave out what differs by less
MOST_KINDS = 3  # kinds of work that a sentence names: those that differ most, of those that differ for sure


def certain_parts(
    breakdowns: Sequence[Breakdown], summaries: Sequence[BackendSummary]
) -> list[tuple[str, str]]:
    """What differs for sure of each backend beside the reference, after its name."""
    notes = []
    for name, step, difference in _differences(breakdowns, summaries):
        parts = [
            f"{kind} {_signed(amount)}"
            for kind, amount in [one for one in difference.kinds if one[1].is_clear][:MOST_KINDS]
            if abs(amount.value) >= LEAST_SHARE * (step or 0)
        ]
        # The unit after the last alone: each backend has one line of the terminal.
        listed = ", ".join(parts).replace(" ms,", ",") or "no kind of work differs for sure"
        certain = f"of {milliseconds(step)}/step {listed}"
        if difference.leaves_most:
            certain += f"; not explained {_signed(difference.remainder)}"
        if difference.distorted:
            distorted = " and ".join(difference.distorted)
            certain = (
                f"why is not known, since the profiled step of {distorted} is too far from the timed one"
            )
        notes.append((name, certain))
    return notes


def _differences(
    breakdowns: Sequence[Breakdown], summaries: Sequence[BackendSummary]
) -> Iterator[tuple[str, float | None, Difference]]:
    """Each backend beside the reference, the reference's seconds a step, and the difference."""
    if not breakdowns or breakdowns[0].backend != summaries[0].backend:
        return
    speedups = {summary.backend: summary.speedup for summary in summaries}
    for breakdown in breakdowns[1:]:
        difference, speedup = explain_difference(breakdown, breakdowns[0]), speedups[breakdown.backend]
        if difference is not None and speedup is not None:
            yield breakdown.backend, breakdowns[0].timed_s, difference


def coverage(breakdowns: Sequence[Breakdown]) -> list[str]:
    """How far the profiles can be trusted: what they cost, what they cover."""
    return [f"profiled step: {'; '.join(map(_trust, breakdowns))}"] if breakdowns else []


def _trust(breakdown: Breakdown) -> str:
    cost = "" if breakdown.cost is None else f"{breakdown.cost:.2f} of the timed step, "
    return f"{breakdown.backend} {cost}{share(breakdown.covered)} covered"


def milliseconds(seconds: float | None) -> str:
    """Seconds as `384 ms`."""
    return MISSING if seconds is None else f"{seconds * 1e3:,.{0 if abs(seconds) >= 0.01 else 1}f} ms"


def _signed(amount: Amount) -> str:
    """A difference in seconds as `−60 ± 2 ms`."""
    sign = "+" if amount.value >= 0 else "−"
    if amount.half is None:
        return sign + milliseconds(abs(amount.value))
    digits = 0 if amount.half >= 1e-3 else 1
    return f"{sign}{abs(amount.value) * 1e3:,.{digits}f} ± {amount.half * 1e3:,.{digits}f} ms"
