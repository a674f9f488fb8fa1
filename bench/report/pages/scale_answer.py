"""What is predicted for many GPUs, in sentences; and how errors are written."""

from collections.abc import Iterable, Sequence

from bench.analysis.scale.tables import LEAST_GAIN, WEAK, faster_world_sizes
from bench.report.content.scale import DDP, ZERO1, Accuracy, Scaling, mean_error
from bench.report.words.formatting import enumerated, number, plural, ratio, share

ASKED = (8, 64, 1024)
"""World sizes at which the answer says how well DDP scales."""


def answer_about_scaling(scaling: Scaling) -> list[str]:
    """What is predicted for a model on a topology, in sentences."""
    return [part for part in (_zero1_or_ddp(scaling), _efficiency(scaling), _memory(scaling)) if part]


def _zero1_or_ddp(scaling: Scaling) -> str:
    ratios = scaling.zero1_over_ddp()
    if not ratios:
        return ""
    faster = faster_world_sizes(ratios)
    best = max(faster or ratios, key=lambda ranks: ratios[ranks])
    gain = f"{ratio(ratios[best])} the samples/s"
    if not faster:
        return (
            f"ZeRO-1 is predicted to be faster than DDP at no world size; at best it reaches {gain}, "
            f"at {best:,} ranks."
        )
    where = "every world size above 1" if len(faster) == len(ratios) else f"{_listed(faster, ratios)} ranks"
    gain = f"at most {gain} at {best:,} ranks" if len(faster) > 1 else f"with {gain}"
    return f"ZeRO-1 is predicted to be faster than DDP at {where}, {gain}{_overlap(scaling, faster)}."


def _overlap(scaling: Scaling, sizes: Sequence[int]) -> str:
    """Whether the brackets of both overlap at these world sizes, at which ZeRO-1 is faster.

    The brackets of efficiency: in samples/s a faster device moves both, and says nothing of the two.
    """
    ddp, zero1 = scaling.efficiencies(DDP), scaling.efficiencies(ZERO1)
    overlapping = sum(zero1[ranks].low <= ddp[ranks].high for ranks in sizes)
    if not overlapping:
        return ""
    where = "there" if overlapping == len(sizes) else "at some of them"
    return f"; the brackets of their efficiency overlap {where}"


def _listed(chosen: Sequence[int], sizes: Iterable[int]) -> str:
    """`2 to 16 and 64`: runs of neighbours among all world sizes."""
    runs: list[list[int]] = [[]]
    for ranks in sizes:
        if ranks in chosen:
            runs[-1].append(ranks)
        elif runs[-1]:
            runs.append([])
    return enumerated(
        [f"{run[0]:,}" if len(run) == 1 else f"{run[0]:,} to {run[-1]:,}" for run in runs if run]
    )


def _efficiency(scaling: Scaling) -> str:
    known = scaling.efficiencies(DDP)
    kept = [f"{known[ranks].per_cent()} at {ranks:,}" for ranks in ASKED if ranks in known]
    if not kept:
        return ""
    kind = "" if scaling.main == WEAK else f" under {scaling.main} scaling"
    return f"Of a lone rank's speed each of DDP's ranks is predicted to keep{kind} {enumerated(kept)} ranks."


def _memory(scaling: Scaling) -> str:
    """Which shardings fit in a rank's memory."""
    shardings: dict[str, list[str]] = {"at every world size": [], "": []}
    for line in scaling.lines[scaling.main]:
        sizes = [point.ranks for point in line.points]
        fitting = [point.ranks for point in line.points if point.fits]
        if not fitting:
            when = ""
        elif fitting == sizes:
            when = "at every world size"
        elif fitting == sizes[-len(fitting) :]:
            when = f"from {fitting[0]:,} ranks on"
        else:
            when = f"at {_listed(fitting, sizes)} ranks"
        shardings.setdefault(when, []).append(line.name)
    never = shardings.pop("")
    parts = [f"{enumerated(names)} {when}" for when, names in shardings.items() if names]
    if not never and len(parts) == 1 and shardings["at every world size"]:
        parts = ["every sharding at every world size"]
    elif not parts:
        parts = ["no sharding at any world size"]
    elif never:
        parts.append(f"not {enumerated(never)}")
    limit = max(point.limit_gib for line in scaling.lines[scaling.main] for point in line.points)
    return f"Predicted to fit in the {number(limit, 3)} GiB of a rank: {'; '.join(parts)}."


def accuracy_in_words(accuracy: Accuracy) -> str:
    """How far the predictions of a quantity were off, in a sentence."""
    count = len(accuracy.checks)
    if all(point.is_equal for point in accuracy.checks):
        return f"{accuracy.quantity}: equal at {'the one point' if count == 1 else f'all {count} points'}"
    return (
        f"{accuracy.quantity}: mean absolute error {absolute(mean_error(accuracy.checks))} over "
        f"{plural(count, 'point')}, largest {signed(accuracy.worst.error)} ({accuracy.worst.setting}); "
        f"{accuracy.within} of {count} {accuracy.rule}"
    )


def textbook(scaling: Scaling) -> str:
    """What the textbook's volume would give, in a sentence; empty if it was not predicted."""
    lines = scaling.by_textbook.get(scaling.main, [])
    counted = {line.name: line for line in scaling.lines[scaling.main]}
    changes: dict[str, tuple[int, float]] = {}  # at the largest world size
    for line in lines:
        if line.name in counted and (ratios := line.over(counted[line.name])):
            changes[line.name] = max(ratios), ratios[max(ratios)] - 1
    if not changes:
        return ""
    begin = "With the bytes that the authors of a sharding name, in place of those that libraries send"
    by_ranks: dict[int, list[str]] = {}
    for name, (ranks, change) in changes.items():
        if abs(change) > LEAST_GAIN - 1:
            by_ranks.setdefault(ranks, []).append(f"{name} {signed(change)}")
    if not by_ranks:
        return f"{begin}, the predicted samples/s would be the same."
    words = [f"at {ranks:,} ranks {enumerated(names)}" for ranks, names in by_ranks.items()]
    sentence = f"{begin}, predicted samples/s would change by this: {'; '.join(words)}."
    ratios = scaling.zero1_over_ddp(by_textbook=True)
    if not ratios or ZERO1 not in {line.sharding for line in lines}:
        return sentence
    faster = faster_world_sizes(ratios)
    where = f"at {_listed(faster, ratios)} ranks" if faster else "at no world size"
    return f"{sentence} ZeRO-1 would be predicted to be faster than DDP {where}."


def absolute(error: float) -> str:
    """An absolute error: `0 %`, `0.02 %`, `3.4 %`."""
    return "0 %" if error == 0 else f"{100 * error:.2g} %" if error < 0.1 else share(error)


def signed(error: float) -> str:
    """`+3.4 %`, `−12.0 %`; whole from 100 % on."""
    written = f"{100 * error:+.1f}" if abs(error) < 0.995 else f"{100 * error:+,.0f}"
    return f"{written.replace('-', chr(0x2212))} %" if float(written.replace(",", "")) else "±0.0 %"
