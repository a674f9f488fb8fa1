"""What is said of the way to a target: in a table's cells, and in the sentence that ends a command."""

from bench.analysis.convergence import BackendConvergence, Convergence
from bench.report.words.formatting import MISSING, interval, number, one_line, plural, ratio
from bench.statistics.intervals import Amount


def answer_about_target(convergence: Convergence) -> str:
    """One sentence: how much sooner each backend came to the target, and whether to the same end."""
    if not convergence.others:
        return ""
    said = "; ".join(_said_of(one, convergence) for one in convergence.others)
    reference = one_line(convergence.reference)
    return f"Time to a held-out loss of {convergence.target:g}, {reference}'s over each: {said}."


def _said_of(one: BackendConvergence, convergence: Convergence) -> str:
    name = one_line(one.backend)
    if one.status != "ok":
        return f"{name} has no result ({one.status})"
    if one.sooner is None:
        return f"{name} is not compared, {describe_reached(one, convergence)}"
    final = f", final loss {one.verdict}" if one.verdict else ""
    return f"{name} {ratio(one.sooner.ratio)} {interval(one.sooner)}{final}"


def describe_reached(one: BackendConvergence, convergence: Convergence) -> str:
    """Why there is no ratio: who did not come to the target, and in how many launches."""
    base = next((base for base in convergence.backends if base.backend == convergence.reference), None)
    short = [side for side in (base, one) if side is not None and side.reached < side.launches]
    if short:
        return "since " + " and ".join(
            f"{one_line(side.backend)} came there in {reached(side)}" for side in short
        )
    if base is None or base.status != "ok":
        return f"since {one_line(convergence.reference)} has no result"
    return "since it was there before anything was timed, or no launch counts"


def reached(one: BackendConvergence) -> str:
    """`5 of 5 launches`, and how many do not count."""
    left_out = f", {one.left_out} disturbed and left out" if one.left_out else ""
    return f"{one.reached} of {plural(one.launches, 'launch', 'es')}{left_out}"


def at_target(one: BackendConvergence, amount: Amount | None) -> str:
    """A mean with its interval; `not reached`, wholly or in part, in place of a number."""
    if one.status != "ok":
        return MISSING
    if amount is None:
        return "not reached" if not one.reached else "not always reached"
    return mean(amount)


def mean(amount: Amount | None) -> str:
    """`12.3 ± 0.4`."""
    if amount is None:
        return MISSING
    half = "" if amount.half is None else f" ± {number(amount.half)}"
    return f"{number(amount.value)}{half}"


def final_loss(one: BackendConvergence) -> str:
    """How far the final loss is from the reference's, and what that is called."""
    if one.difference is None:
        return MISSING
    value, half = one.difference.value, one.difference.half
    spread = "" if half is None else f" ± {half:.3f}"
    return f"{one.verdict}: {value:+.3f}{spread}"
