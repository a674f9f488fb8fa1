"""What is said of the way to a target: a sentence after the verdicts, and a table on the page."""

from bench.errors import plural
from bench.report.content.blocks import Block, Bold, Column, Paragraph, table, text_column
from bench.report.content.collection import ReportedComparison
from bench.report.words.formatting import MISSING, number, one_line, ratio_and_interval
from bench.statistics.intervals import Amount
from bench.studies.converge.convergence import BackendConvergence, Convergence, find_convergence
from bench.studies.converge.table import TABLE


def convergence_of(comparison: ReportedComparison) -> Convergence | None:
    """How soon each backend comes to the target; None where that was not followed."""
    followed = comparison.beside.get(TABLE.kind)
    if followed is None:
        return None
    statuses = {summary.backend: summary.status for summary in comparison.summaries}
    return find_convergence(followed, comparison.reference, statuses)


def make_answer(comparison: ReportedComparison) -> list[str]:
    """One sentence: how much sooner each backend came to the target, and whether to the same end."""
    convergence = convergence_of(comparison)
    if convergence is None or not convergence.others:
        return []
    answers = "; ".join(map(_answer_of, convergence.others))
    reference = one_line(convergence.reference)
    return [f"Time to a held-out loss of {convergence.target:g}, {reference}'s over each: {answers}."]


def make_blocks(comparison: ReportedComparison) -> list[Block]:
    """The table of all backends; nothing without a target."""
    target = convergence_of(comparison)
    if target is None:
        return []
    goal = f"Held-out loss to reach: {target.target:g}. Margin of final losses: ± {target.margin:g}."
    title = Paragraph(Bold("Time to the target"))
    return [title, table(target.backends, TARGET), Paragraph(f"{goal} {ABOUT_TARGET}")]


def _answer_of(backend: BackendConvergence) -> str:
    name = one_line(backend.backend)
    if backend.status != "ok":
        return f"{name} has no result ({backend.status})"
    if backend.sooner is None:
        return f"{name} is not compared: it came there in {_reached(backend)}, or the reference not in all"
    final = f", final loss {backend.verdict}" if backend.verdict else ""
    return f"{name} {backend.sooner}{final}"


def _reached(backend: BackendConvergence) -> str:
    """`5 of 5 launches`, and how many do not count."""
    left_out = f", {backend.left_out} disturbed and left out" if backend.left_out else ""
    return f"{backend.reached} of {plural(backend.launches, 'launch', 'es')}{left_out}"


def _at_target(backend: BackendConvergence, amount: Amount | None) -> str:
    """A mean with its interval; `not reached`, wholly or in part, in place of a number."""
    if backend.status != "ok":
        return MISSING
    return _mean(amount) if amount else "not always reached" if backend.reached else "not reached"


def _mean(amount: Amount | None) -> str:
    """`12.3 ± 0.4`."""
    if amount is None:
        return MISSING
    return number(amount.value) + ("" if amount.half is None else f" ± {number(amount.half)}")


def _final_loss(backend: BackendConvergence) -> str:
    """How far the final loss is from the reference's, and the verdict on that."""
    if backend.difference is None:
        return MISSING
    value, half = backend.difference.value, backend.difference.half
    spread = "" if half is None else f" ± {half:.3f}"
    return f"{backend.verdict}: {value:+.3f}{spread}"


TARGET: list[Column[BackendConvergence]] = [
    text_column("backend", lambda backend: one_line(backend.backend)),
    text_column(
        "reached in", lambda backend: _reached(backend) if backend.status == "ok" else backend.status
    ),
    Column("seconds", lambda backend: _at_target(backend, backend.seconds)),
    Column("seconds with start", lambda backend: _at_target(backend, backend.with_start)),
    Column("steps", lambda backend: _at_target(backend, backend.steps)),
    Column("sooner", lambda backend: ratio_and_interval(backend.sooner)),
    Column("sooner with start", lambda backend: ratio_and_interval(backend.sooner_with_start)),
    Column("fewer steps", lambda backend: ratio_and_interval(backend.fewer_steps)),
    Column("final loss", lambda backend: _mean(backend.final_loss) if backend.status == "ok" else MISSING),
    Column("difference of final loss", _final_loss),
]
ABOUT_TARGET = (
    "Reached: at the first evaluation at which the held-out loss is at or below the target. Seconds: of the "
    "timed blocks until then; with start: set-up, first step and warm-up, too. Means over launches, each of "
    "them a seed, with 95 % intervals. Sooner: the reference's seconds over the backend's in the same "
    "launch, geometric mean over launches; without a number where one of the two did not always come there. "
    "Equivalent: two one-sided t tests at 5 % find the final losses, paired by launch, within the margin; "
    "different: the 95 % interval of the difference excludes 0; open: neither."
)
