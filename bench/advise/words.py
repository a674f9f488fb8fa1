"""What `make advise` says: before it measures, and at the end."""

from collections.abc import Sequence

from bench.advise.effects import Bounds
from bench.advise.measured import Outcome
from bench.advise.predict import Candidate, Selection, middle
from bench.report.formatting import number, ratio_and_interval

GIB = 2**30


def plan_lines(selection: Selection, trial_words: str, expected_s: float) -> list[str]:
    """What will be measured, what will not and why, and how long it takes."""
    return [
        trial_words,
        f"to measure, about {max(1, round(expected_s / 60))} minutes:",
        *(f"  {_name(one)}: {_memory(one.memory)}, {_speed(one.speed)}" for one in selection.open),
        *(f"left out: {one.backend}: {reason}" for one, reason in selection.left_out),
    ]


def _name(one: Candidate) -> str:
    parts = f", each micro-batch in {one.parts} parts" if one.parts > 1 else ""
    return f"{one.backend}{parts}"


def _memory(bounds: Bounds) -> str:
    return f"{bounds.low / GIB:.1f} to {bounds.high / GIB:.1f} GiB, about {middle(bounds) / GIB:.1f}"


def _speed(bounds: Bounds) -> str:
    if bounds.low == 0:
        return "speed not known here"
    return f"{bounds.low:.2f} to {bounds.high:.2f} times as fast as plain PyTorch"


def answer(outcomes: Sequence[Outcome], model: str, limit_gib: float, machine: str) -> str:
    """Return one sentence: what trains fastest within the limit, and how sure that is."""
    ranked = [one for one in outcomes if one.samples_per_s is not None]
    if not ranked:
        return f"Nothing that was tried trains {model} within {limit_gib:g} GiB on {machine}."
    first, *others = ranked
    peak = "" if first.peak_gib is None else f", with a peak of {first.peak_gib:.1f} GiB"
    head = (
        f"{model} trains fastest within {limit_gib:g} GiB with {_name(first.candidate)}: "
        f"{number(first.samples_per_s or 0)} samples/s{peak}, on {machine}"
    )
    close = [one.candidate.backend for one in others if not is_slower(one)]
    if not others:
        return f"{head}; nothing else was left to compare it with."
    if close:
        return f"{head}; {', '.join(close)} may be as fast, as far as the intervals tell."
    return f"{head}; all others that were measured are slower, as the intervals tell."


def is_slower(one: Outcome) -> bool:
    """Whether the whole interval lies below the fastest."""
    ratio = one.against_first
    return ratio is not None and ratio.high is not None and ratio.high < 1


def table(outcomes: Sequence[Outcome], selection: Selection) -> str:
    """A line for each configuration, the fastest first; then what was not measured."""
    lines = []
    for place, one in enumerate(outcomes, 1):
        if one.samples_per_s is None:
            lines.append(f"-  {_name(one.candidate)}: {one.status}: {one.message}")
            continue
        against = "" if place == 1 else f", {ratio_and_interval(one.against_first)} of the first"
        peak = "" if one.peak_gib is None else f", peak {one.peak_gib:.2f} GiB"
        lines.append(
            f"{place}. {_name(one.candidate)}: {number(one.samples_per_s)} samples/s{against}{peak} "
            f"(predicted {_memory(one.candidate.memory)})"
        )
        lines.append(f"   {one.command}")
    return "\n".join([*lines, *(f"-  {one.backend}: not measured: {why}" for one, why in selection.left_out)])
