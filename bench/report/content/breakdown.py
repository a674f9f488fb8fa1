"""Where time goes, in sentences: under the table of a comparison and on its page."""

from collections.abc import Iterator, Sequence

from bench.analysis.breakdown import UNNAMED, Breakdown, Difference, explain_difference
from bench.report.words.formatting import MISSING, ratio, share
from bench.results.operator_kinds import WAITING
from bench.statistics.intervals import Amount
from bench.statistics.summary import BackendSummary

LEAST_SHARE = 0.01
"""Share of a step: a short line leaves out what differs by less."""

MOST_KINDS = 3
"""Kinds of work that a sentence names: those that differ most, of those that differ for sure."""


def explain(breakdowns: Sequence[Breakdown], summaries: Sequence[BackendSummary]) -> list[str]:
    """A sentence for each backend beside the reference: what its step has more and less of."""
    sentences = []
    for name, ratio_, step, difference in _differences(breakdowns, summaries):
        why = f"of a step of {milliseconds(step)}, {_parts(difference)}"
        if difference.distorted:
            names = " and ".join(difference.distorted)
            why = f"why is not known, since the profiled step of {names} is too far from the timed one"
        sentences.append(f"{name} is {ratio(ratio_)} {breakdowns[0].backend}: {why}")
    return sentences


def certain_parts(
    breakdowns: Sequence[Breakdown], summaries: Sequence[BackendSummary]
) -> list[tuple[str, str]]:
    """What differs for sure of each backend beside the reference, after its name and without operators."""
    notes = []
    for name, _, step, difference in _differences(breakdowns, summaries):
        parts = [
            f"{kind} {_signed(amount).removesuffix(' ms')}"
            for kind, amount in _clear_kinds(difference)
            if not difference.distorted and abs(amount.value) >= LEAST_SHARE * (step or 0)
        ]
        certain = ", ".join(parts) or "no kind of work differs for sure"
        notes.append((name, f"of {milliseconds(step)} a step {certain}"))
    return notes


def _differences(
    breakdowns: Sequence[Breakdown], summaries: Sequence[BackendSummary]
) -> Iterator[tuple[str, float, float | None, Difference]]:
    """Each backend beside the reference, its speed-up, the reference's seconds a step, and the difference."""
    if not breakdowns or breakdowns[0].backend != summaries[0].backend:
        return
    speedups = {summary.backend: summary.speedup for summary in summaries}
    for breakdown in breakdowns[1:]:
        difference, speedup = explain_difference(breakdown, breakdowns[0]), speedups[breakdown.backend]
        if difference is not None and speedup is not None:
            yield breakdown.backend, speedup.ratio, breakdowns[0].timed_s, difference


def _clear_kinds(difference: Difference) -> list[tuple[str, Amount]]:
    return [(kind, amount) for kind, amount in difference.kinds if amount.is_clear][:MOST_KINDS]


def coverage(breakdowns: Sequence[Breakdown]) -> list[str]:
    """How far the profiles can be trusted: what they cost, what they cover, what they do not know."""
    if not breakdowns:
        return []
    lines = [f"profiled step: {'; '.join(map(_trust, breakdowns))}"]
    for each in breakdowns:
        if each.has_unknown:
            names = ", ".join(name for name, _ in each.unknown[:MOST_KINDS])
            of_step = share(each.kinds["other"] / each.profiled_s)
            lines.append(f"{each.backend}: {of_step} of the step is in operators of no known kind: {names}")
    return lines


def _trust(breakdown: Breakdown) -> str:
    cost = "" if breakdown.cost is None else f"{breakdown.cost:.2f} of the timed step, "
    return f"{breakdown.backend} {cost}{share(breakdown.covered)} covered"


def milliseconds(seconds: float | None) -> str:
    """Seconds as `384 ms`."""
    return MISSING if seconds is None else f"{seconds * 1e3:,.{0 if abs(seconds) >= 0.01 else 1}f} ms"


def _parts(difference: Difference) -> str:
    """Its largest parts, each with the operator that has most of it on the side that takes longer."""
    named, parts = _clear_kinds(difference), []
    for kind, amount in named:
        operator = "" if kind in UNNAMED else difference.main.get(kind)
        of_operator = f" ({operator})" if operator and operator != WAITING else ""
        parts.append(f"{kind} {_signed(amount)}{of_operator}")
    rest = difference.of(difference.rounds.keys() - dict(named).keys())
    others = "all other work" if named else "no kind of work differs for sure, all together"
    doubt = ", more than any kind of work differs by" if difference.leaves_most else ""
    return ", ".join(
        [*parts, f"{others} {_signed(rest)}", f"not explained {_signed(difference.remainder)}{doubt}"]
    )


def _signed(amount: Amount) -> str:
    """A difference in seconds as `−60 ± 2 ms`."""
    sign = "+" if amount.value >= 0 else "−"
    if amount.half is None:
        return sign + milliseconds(abs(amount.value))
    digits = 0 if amount.half >= 1e-3 else 1
    return f"{sign}{abs(amount.value) * 1e3:,.{digits}f} ± {amount.half * 1e3:,.{digits}f} ms"
