"""What `make advise` says: before it measures, and at the end."""

from bench.advise.bounds import Bounds
from bench.advise.measured import Trained
from bench.advise.plain import PlainTraining
from bench.advise.predict import Candidate, Selection
from bench.advise.search import CLOSE, Advice, AdviceCheck
from bench.report.words.formatting import number, ratio_and_interval

GIB, MIB = 2**30, 2**20


def plan_lines(selection: Selection, training: PlainTraining, once_s: float, full_s: float) -> list[str]:
    """What the trials have shown, what will be trained, what will not and why, and how long it takes.

    Everything that is open takes `once_s` seconds in one launch, one configuration in full `full_s`.
    """
    trials = (
        f"plain PyTorch: a rank needs {training.first_bytes / GIB:.2f} GiB and "
        f"{training.sample_bytes / MIB:.0f} MiB for each sample trained at once; a step takes "
        f"{training.work_seconds:.2f} s and {training.part_seconds:.2f} s for each part of a micro-batch"
    )
    left_out = [f"left out: {each.backend}: {reason}" for each, reason in selection.left_out]
    if not selection.open:
        return [trials, *left_out]
    wanted = [f"  {_name(each)}: {_memory(each.memory)}; {_speed(each.speed)}" for each in selection.open]
    return [
        trials,
        f"to train in one launch, about {_minutes(once_s)} minutes; then about {_minutes(full_s)} for each "
        "of the fastest:",
        *wanted,
        *left_out,
    ]


def _minutes(seconds: float) -> int:
    return max(1, round(seconds / 60))


def _name(candidate: Candidate) -> str:
    parts = f", each micro-batch in {candidate.parts} parts" if candidate.parts > 1 else ""
    return f"{candidate.backend}{parts}"


def _memory(bounds: Bounds) -> str:
    return f"{bounds.low / GIB:.1f} to {bounds.high / GIB:.1f} GiB"


def _speed(bounds: Bounds) -> str:
    if not bounds.is_finite:
        return "how fast is not known on this machine"
    return f"{bounds.low:.2f} to {bounds.high:.2f} times as fast as plain PyTorch"


def _rate(outcome: Trained) -> str:
    return f"{number(outcome.samples_per_s or 0)} samples/s"


def _peak(outcome: Trained) -> str:
    return "" if outcome.peak_gib is None else f", peak {outcome.peak_gib:.2f} GiB"


def _failure(outcome: Trained) -> str:
    return f"-  {_name(outcome.candidate)}: {outcome.status}: {outcome.message}"


def answer(advice: Advice, model: str, limit_gib: float, machine: str) -> str:
    """Return one sentence: what trains fastest within the limit, and how sure that is."""
    best = advice.best
    if best is None:
        begin = "Nothing that was tried trains"
        if not advice.outcomes:
            begin = "No configuration is expected to train"
        elif any(outcome.status == "invalid" for outcome in advice.outcomes):
            begin = "No valid measurement says what trains"
        return f"{begin} {model} within {limit_gib:g} GiB on {machine}."
    peak = "" if best.peak_gib is None else f", with a peak of {best.peak_gib:.1f} GiB"
    head = (
        f"{model} trains fastest within {limit_gib:g} GiB with {_name(best.candidate)}: "
        f"{_rate(best)}{peak}, on {machine}"
    )
    others = [each for each in advice.outcomes if each is not best and each.samples_per_s is not None]
    ratios = {each.candidate.backend: each.against(best) for each in others}
    close = [name for name, ratio in ratios.items() if ratio is None or ratio.high is None or ratio.high >= 1]
    if close:
        return f"{head}; {', '.join(close)} may be as fast, as far as the intervals tell."
    reasons = [
        *(["all others that were measured in full are slower, as their intervals tell"] if others else []),
        *([f"what was left then was more than {CLOSE:.0%} slower in one launch"] if advice.slower else []),
    ]
    return f"{head}; {'; '.join(reasons) or 'nothing else was timed'}."


def table(advice: Advice) -> str:
    """A line and a command for each configuration, the fastest first; then what was not measured."""
    best = advice.best
    lines = []
    for place, outcome in enumerate(advice.outcomes, 1):
        candidate = outcome.candidate
        if best is None or outcome.samples_per_s is None:
            lines.append(_failure(outcome))
            continue
        against = "" if outcome is best else f", {ratio_and_interval(outcome.against(best))} of the first"
        predicted = f"predicted {_memory(candidate.memory)}; {_speed(candidate.speed)}"
        lines.append(f"{place}. {_name(candidate)}: {_rate(outcome)}{against}{_peak(outcome)} ({predicted})")
        lines.append(f"   {outcome.command}")
    lines += [f"-  {_name(each.candidate)}: {_rate(each)} in one launch" for each in advice.slower]
    lines += [f"-  {each.backend}: not trained: {reason}" for each, reason in advice.left_out]
    return "\n".join(lines)


def before_check(count: int, seconds: float) -> str:
    """Say what the check takes."""
    return f"to check the advice, all {count} are trained once, about {_minutes(seconds)} minutes"


def check_answer(check: AdviceCheck, advice: Advice) -> str:
    """How near the advised configuration comes to the best of all."""
    head = f"Checked: of {len(check.outcomes)} configurations trained once each"
    timed = [outcome for outcome in check.outcomes if outcome.samples_per_s is not None]
    if not timed or advice.best is None:
        return f"{head}, none was timed."
    head = (
        f"{head}, {len(timed)} train within the limit, and {_name(timed[0].candidate)} is the fastest with "
        f"{_rate(timed[0])}"
    )
    if check.is_fastest:
        return f"{head}: the advised one."
    if check.ratio is None:
        return f"{head}; it could not be compared with the advised one in full."
    return f"{head}; measured in full, the advised one has {ratio_and_interval(check.ratio)} of its speed."


def check_table(check: AdviceCheck) -> str:
    """A line for each configuration that was trained for the check."""
    outcomes = [
        _failure(outcome)
        if outcome.samples_per_s is None
        else f"-  {_name(outcome.candidate)}: {_rate(outcome)}{_peak(outcome)}"
        for outcome in check.outcomes
    ]
    untrained = [f"-  {_name(candidate)}: had no turn" for candidate in check.untrained]
    return "\n".join(["checked, in one launch each:", *outcomes, *untrained])
