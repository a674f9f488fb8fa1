"""What is said of where the time goes: on the page of a comparison, and at the end of `make bench`."""

from collections.abc import Iterator

from bench.report.content.collection import ReportedComparison
from bench.report.words.formatting import MISSING, share
from bench.statistics.intervals import Amount
from bench.studies.explain.breakdown import Breakdown, Difference, break_down, explain_difference

LEAST_SHARE = 0.01  # share of a step: a short line and the answer leave out what differs by less
MOST_KINDS = 3  # kinds of work that a sentence names: those that differ most


def make_closing(comparison: ReportedComparison) -> list[tuple[str, str]]:
    """The largest differences of each backend from the reference, after its name; one may be chance."""
    notes = []
    for name, step, difference in _differences(comparison):
        large = [one for one in difference.kinds if abs(one[1].value) >= LEAST_SHARE * (step or 0)]
        sure = [one for one in large if one[1].is_clear]
        least = abs(sure[-1][1].value) if sure else 0.0
        # What may be chance and is larger than the least that is sure: without it the others would mislead.
        maybe = [one for one in large if one not in sure and abs(one[1].value) > least][:1]
        named = [one for one in large if one in sure or one in maybe][:MOST_KINDS]
        parts = [] if sure else ["no kind of work differs for sure"]
        parts += [f"{'maybe ' * (one in maybe)}{one[0]} {_signed(one[1])}" for one in named]
        # The unit after the last alone: each backend has one line of the terminal.
        listed = ", ".join(parts).replace(" ms,", ",")
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


def make_notes(comparison: ReportedComparison) -> list[tuple[str, str]]:
    """What differs, and how far the profiles can be trusted: what they cost, what they cover."""
    trust = "; ".join(map(_trust, break_down(comparison)))
    return make_closing(comparison) + ([("profiled step", trust)] if trust else [])


def _differences(comparison: ReportedComparison) -> Iterator[tuple[str, float | None, Difference]]:
    """Each backend beside the reference, the reference's seconds a step, and the difference."""
    breakdowns = break_down(comparison)
    if not breakdowns or breakdowns[0].backend != comparison.summaries[0].backend:
        return
    base, *others = breakdowns
    for breakdown in others:
        difference = explain_difference(breakdown, base)
        if difference is not None and breakdown.speedup is not None:
            yield breakdown.backend, base.timed_s, difference


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
