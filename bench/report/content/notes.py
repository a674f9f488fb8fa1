"""What is said of one comparison besides its table: of backends, the way to a target."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from bench.analysis.convergence import BackendConvergence, Convergence
from bench.errors import PASSED
from bench.report.words.formatting import MISSING, number, one_line, plural
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


# The way to a target


def answer_about_target(convergence: Convergence) -> str:
    """One sentence: how much sooner each backend came to the target, and whether to the same end."""
    if not convergence.others:
        return ""
    answers = "; ".join(_answer_of(backend, convergence) for backend in convergence.others)
    reference = one_line(convergence.reference)
    return f"Time to a held-out loss of {convergence.target:g}, {reference}'s over each: {answers}."


def _answer_of(backend: BackendConvergence, convergence: Convergence) -> str:
    name = one_line(backend.backend)
    if backend.status != "ok":
        return f"{name} has no result ({backend.status})"
    if backend.sooner is None:
        return f"{name} is not compared, since {_why_no_ratio(backend, convergence)}"
    final = f", final loss {backend.verdict}" if backend.verdict else ""
    return f"{name} {backend.sooner}{final}"


def _why_no_ratio(backend: BackendConvergence, convergence: Convergence) -> str:
    """Who did not come to the target, and in how many launches."""
    base = next((base for base in convergence.backends if base.backend == convergence.reference), None)
    sides = [side for side in (base, backend) if side is not None and side.reached < side.launches]
    if sides:
        return " and ".join(f"{one_line(side.backend)} came there in {reached(side)}" for side in sides)
    if base is None or base.status != "ok":
        return f"{one_line(convergence.reference)} has no result"
    return "it was there before anything was timed, or no launch counts"


def reached(backend: BackendConvergence) -> str:
    """`5 of 5 launches`, and how many do not count."""
    left_out = f", {backend.left_out} disturbed and left out" if backend.left_out else ""
    return f"{backend.reached} of {plural(backend.launches, 'launch', 'es')}{left_out}"


def at_target(backend: BackendConvergence, amount: Amount | None) -> str:
    """A mean with its interval; `not reached`, wholly or in part, in place of a number."""
    if backend.status != "ok":
        return MISSING
    return mean(amount) if amount else "not always reached" if backend.reached else "not reached"


def mean(amount: Amount | None) -> str:
    """`12.3 ± 0.4`."""
    if amount is None:
        return MISSING
    return number(amount.value) + ("" if amount.half is None else f" ± {number(amount.half)}")


def final_loss(backend: BackendConvergence) -> str:
    """How far the final loss is from the reference's, and what that is called."""
    if backend.difference is None:
        return MISSING
    value, half = backend.difference.value, backend.difference.half
    spread = "" if half is None else f" ± {half:.3f}"
    return f"{backend.verdict}: {value:+.3f}{spread}"
