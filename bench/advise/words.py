"""What `make advise` says: before it measures, and at the end."""

from collections.abc import Sequence

from bench.advise.bounds import Bounds
from bench.advise.exhaustive import Check
from bench.advise.measured import Outcome
from bench.advise.plain import PlainTraining
from bench.advise.predict import Candidate, Selection
from bench.advise.search import CLOSE, Advice
from bench.report.words.formatting import number, ratio_and_interval
from bench.statistics.intervals import Speedup

GIB, MIB = 2**30, 2**20


def plan_lines(selection: Selection, training: PlainTraining, once_s: float, full_s: float) -> list[str]:
    """What the trials have shown, what will be trained, what will not and why, and how long it takes.

    Args:
        selection: of the candidates.
        training: of plain PyTorch.
        once_s: seconds until everything that is open is trained in one launch.
        full_s: that measuring one configuration takes.
    """
    shown = (
        f"plain PyTorch: a rank needs {training.first_bytes / GIB:.2f} GiB and "
        f"{training.sample_bytes / MIB:.0f} MiB for each sample trained at once; a step takes "
        f"{training.work_seconds:.2f} s and {training.part_seconds:.2f} s for each part of a micro-batch"
    )
    left_out = [f"left out: {one.backend}: {reason}" for one, reason in selection.left_out]
    if not selection.open:
        return [shown, *left_out]
    wanted = [f"  {_name(one)}: {_memory(one.memory)}; {_speed(one.speed)}" for one in selection.open]
    return [
        shown,
        f"to train in one launch, about {_minutes(once_s)} minutes; then about {_minutes(full_s)} for each "
        "of the fastest:",
        *wanted,
        *left_out,
    ]


def _minutes(seconds: float) -> int:
    return max(1, round(seconds / 60))


def _name(one: Candidate) -> str:
    return f"{one.backend}, each micro-batch in {one.parts} parts" if one.parts > 1 else one.backend


def _memory(bounds: Bounds) -> str:
    return f"{bounds.low / GIB:.1f} to {bounds.high / GIB:.1f} GiB"


def _speed(bounds: Bounds) -> str:
    if not bounds.is_finite:
        return "how fast is not known on this machine"
    return f"{bounds.low:.2f} to {bounds.high:.2f} times as fast as plain PyTorch"


def first(advice: Advice) -> Outcome | None:
    """The fastest; None if nothing was timed."""
    return next((one for one in advice.outcomes if one.samples_per_s is not None), None)


def answer(advice: Advice, model: str, limit_gib: float, machine: str) -> str:
    """Return one sentence: what trains fastest within the limit, and how sure that is."""
    best = first(advice)
    if best is None:
        what = "Nothing that was tried trains" if advice.outcomes else "No configuration is expected to train"
        return f"{what} {model} within {limit_gib:g} GiB on {machine}."
    peak = "" if best.peak_gib is None else f", with a peak of {best.peak_gib:.1f} GiB"
    head = (
        f"{model} trains fastest within {limit_gib:g} GiB with {_name(best.candidate)}: "
        f"{number(best.samples_per_s or 0)} samples/s{peak}, on {machine}"
    )
    others = [one for one in advice.outcomes if one is not best and one.samples_per_s is not None]
    close = [one.candidate.backend for one in others if not _is_slower(one.against(best))]
    if close:
        return f"{head}; {', '.join(close)} may be as fast, as far as the intervals tell."
    reasons = [
        *(["all others that were measured in full are slower, as their intervals tell"] if others else []),
        *([f"what was left then was more than {CLOSE:.0%} slower in one launch"] if advice.slower else []),
    ]
    return f"{head}; {'; '.join(reasons) or 'nothing else was timed'}."


def _is_slower(ratio: Speedup | None) -> bool:
    return ratio is not None and ratio.high is not None and ratio.high < 1


def table(advice: Advice) -> str:
    """A line and a command for each configuration, the fastest first; then what was not measured."""
    best = first(advice)
    lines = []
    for place, one in enumerate(advice.outcomes, 1):
        if best is None or one.samples_per_s is None:
            lines.append(f"-  {_name(one.candidate)}: {one.status}: {one.message}")
            continue
        against = "" if one is best else f", {ratio_and_interval(one.against(best))} of the first"
        peak = "" if one.peak_gib is None else f", peak {one.peak_gib:.2f} GiB"
        predicted = f"predicted {_memory(one.candidate.memory)}; {_speed(one.candidate.speed)}"
        lines += [
            f"{place}. {_name(one.candidate)}: {number(one.samples_per_s)} samples/s{against}{peak} "
            f"({predicted})",
            f"   {one.command}",
        ]
    lines += [
        f"-  {_name(one.candidate)}: {number(one.samples_per_s or 0)} samples/s in one launch"
        for one in advice.slower
    ]
    left_out: Sequence[tuple[Candidate, str]] = advice.left_out
    return "\n".join([*lines, *(f"-  {one.backend}: not trained: {why}" for one, why in left_out)])


def before_check(number_of_them: int, seconds: float) -> str:
    """Say what the check takes."""
    return f"to check the advice, all {number_of_them} are trained once, about {_minutes(seconds)} minutes"


def check_answer(check: Check, advice: Advice) -> str:
    """How near the advised configuration comes to the best of all."""
    timed = [one for one in check.outcomes if one.samples_per_s is not None]
    if not timed or first(advice) is None:
        return f"Checked: of {len(check.outcomes)} configurations trained once each, none was timed."
    fastest = timed[0]
    head = (
        f"Checked: of {len(check.outcomes)} configurations trained once each, {len(timed)} train "
        f"within the limit, and {_name(fastest.candidate)} is the fastest with "
        f"{number(fastest.samples_per_s or 0)} samples/s"
    )
    if check.is_fastest:
        return f"{head}: the advised one."
    if check.ratio is None:
        return f"{head}; it could not be compared with the advised one in full."
    return f"{head}; measured in full, the advised one has {ratio_and_interval(check.ratio)} of its speed."


def check_table(check: Check) -> str:
    """A line for each configuration that was trained for the check."""
    lines = ["checked, in one launch each:"]
    for one in check.outcomes:
        if one.samples_per_s is None:
            lines.append(f"-  {_name(one.candidate)}: {one.status}: {one.message}")
        else:
            peak = "" if one.peak_gib is None else f", peak {one.peak_gib:.2f} GiB"
            lines.append(f"-  {_name(one.candidate)}: {number(one.samples_per_s)} samples/s{peak}")
    lines += [f"-  {_name(one)}: had no turn" for one in check.untrained]
    return "\n".join(lines)
