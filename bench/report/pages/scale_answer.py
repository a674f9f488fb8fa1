"""What is predicted for many GPUs, in sentences; and how errors are written."""

from collections.abc import Mapping, Sequence

from bench.report.content.scale import DDP, ZERO1, Accuracy, ScaleLine, Scaling, per_cent
from bench.report.formatting import enumerated, number, plural, ratio, share

ASKED = (8, 64, 1024)
"""World sizes at which the answer says how well DDP scales."""

LEAST_GAIN = 1.0005
"""From this ratio on one is faster than the other: what rounds to 1.000 is not."""


def answer(scaling: Scaling) -> list[str]:
    """What is predicted for a model on a topology, in sentences."""
    return [one for one in (_zero1_or_ddp(scaling), _efficiency(scaling), _memory(scaling)) if one]


def both(scaling: Scaling, *, by_textbook: bool = False) -> tuple[ScaleLine, ScaleLine] | None:
    """DDP and ZeRO-1."""
    ddp, zero1 = (scaling.line(name, by_textbook=by_textbook) for name in (DDP, ZERO1))
    return (ddp, zero1) if ddp and zero1 else None


def _ratios(ddp: ScaleLine, zero1: ScaleLine) -> dict[int, float]:
    """Samples/s of ZeRO-1 over those of DDP at every world size above 1 that both have."""
    found = {}
    for point in zero1.points:
        other = ddp.at(point.ranks)
        if point.ranks > 1 and point.samples and other and other.samples:
            found[point.ranks] = point.samples.value / other.samples.value
    return found


def faster_at(scaling: Scaling) -> list[int]:
    """World sizes at which ZeRO-1 is predicted to be faster than DDP."""
    pair = both(scaling)
    return _faster(_ratios(*pair)) if pair else []


def _faster(ratios: Mapping[int, float]) -> list[int]:
    return [ranks for ranks, value in ratios.items() if value > LEAST_GAIN]


def _zero1_or_ddp(scaling: Scaling) -> str:
    pair = both(scaling)
    ratios = _ratios(*pair) if pair else {}
    if not (pair and ratios):
        return ""
    faster = _faster(ratios)
    if not faster:
        best = max(ratios, key=lambda ranks: ratios[ranks])
        return (
            f"ZeRO-1 is predicted to be faster than DDP at no world size; at best it reaches "
            f"{ratio(ratios[best])} the samples/s, at {best:,} ranks."
        )
    best = max(faster, key=lambda ranks: ratios[ranks])
    where = "every world size above 1" if len(faster) == len(ratios) else f"{_listed(faster, ratios)} ranks"
    gain = f"with {ratio(ratios[best])} the samples/s"
    if len(faster) > 1:
        gain = f"at most {ratio(ratios[best])} the samples/s at {best:,} ranks"
    overlap = _overlap(*pair, faster)
    return f"ZeRO-1 is predicted to be faster than DDP at {where}, {gain}{overlap}."


def _overlap(ddp: ScaleLine, zero1: ScaleLine, at: Sequence[int]) -> str:
    """At how many of these world sizes the brackets of both have something in common.

    Those of efficiency: in samples/s a faster device moves both brackets, and says nothing of the two.
    """
    several = 0
    for ranks in at:
        one, other = zero1.at(ranks), ddp.at(ranks)
        if one and other and one.efficiency and other.efficiency:
            several += one.efficiency.ends[0] <= other.efficiency.ends[1]
    if not several:
        return ""
    where = "there" if several == len(at) else "at some of them"
    return f"; the brackets of their efficiency overlap {where}"


def _listed(chosen: Sequence[int], every: Sequence[int] | dict[int, float]) -> str:
    """Such as `2 to 16 and 64`: runs of neighbours among all world sizes."""
    runs: list[list[int]] = []
    before = None
    for ranks in every:
        if ranks in chosen:
            if before in chosen and runs:
                runs[-1].append(ranks)
            else:
                runs.append([ranks])
        before = ranks
    words = [f"{run[0]:,}" if len(run) == 1 else f"{run[0]:,} to {run[-1]:,}" for run in runs]
    return enumerated(words)


def _efficiency(scaling: Scaling) -> str:
    line = scaling.line(DDP)
    if line is None:
        return ""
    known = [
        f"{per_cent(point.efficiency)} at {ranks:,}"
        for ranks in ASKED
        if (point := line.at(ranks)) and point.efficiency
    ]
    if not known:
        return ""
    kind = "" if scaling.main == "weak" else f" under {scaling.main} scaling"
    return f"Of a lone rank's speed each of DDP's ranks is predicted to keep{kind} {enumerated(known)} ranks."


def _memory(scaling: Scaling) -> str:
    """Which shardings fit in a rank's memory."""
    always: list[str] = []
    never: list[str] = []
    later: dict[str, list[str]] = {}
    limits: set[float] = set()
    for line in scaling.lines[scaling.main]:
        known = [point for point in line.points if point.fits is not None]
        limits |= {point.limit_gib for point in known if point.limit_gib is not None}
        fitting = [point.ranks for point in known if point.fits]
        if not known:
            continue
        if len(fitting) == len(known):
            always.append(line.name)
        elif not fitting:
            never.append(line.name)
        else:
            sizes = [point.ranks for point in known]
            on = fitting == sizes[-len(fitting) :]
            when = f"from {fitting[0]:,} ranks on" if on else f"at {_listed(fitting, sizes)} ranks"
            later.setdefault(when, []).append(line.name)
    if not (always or later or never):
        return ""
    if not (later or never):
        words = "every sharding at every world size"
    elif not (always or later):
        words = "no sharding at any world size"
    else:
        everywhere = [f"{enumerated(always)} at every world size"] if always else []
        some = [f"{enumerated(names)} {when}" for when, names in later.items()]
        words = "; ".join([*everywhere, *some, *([f"not {enumerated(never)}"] if never else [])])
    memory = f"{number(max(limits), 3)} GiB of a rank"
    return f"Predicted to fit in the {memory}: {words}."


def accuracy_in_words(one: Accuracy) -> str:
    """How far the predictions of a quantity were off, in a sentence."""
    count = len(one.checks)
    if all(check.is_equal for check in one.checks):
        return f"{one.quantity}: equal at {'the one point' if count == 1 else f'all {count} points'}"
    words = (
        f"{one.quantity}: mean absolute error {absolute(one.mean)} over {plural(count, 'point')}, largest "
        f"{signed(one.worst.error)} ({one.worst.setting})"
    )
    return f"{words}; {one.within} of {count} {one.kind.rule}" if one.kind else words


def textbook(one: Scaling) -> str:
    """What the textbook's volume would give, in a sentence; empty if it was not predicted."""
    lines = one.by_textbook.get(one.main, [])
    changes: dict[str, tuple[int, float]] = {}
    for line in lines:
        counted = next((other for other in one.lines[one.main] if other.name == line.name), None)
        shared = [
            (point.ranks, point.samples.value / other.samples.value)
            for point in line.points
            if counted and point.samples and (other := counted.at(point.ranks)) and other.samples
        ]
        if shared:
            changes[line.name] = shared[-1]
    if not changes:
        return ""
    begin = "With the bytes that the authors of a sharding name, in place of those that libraries send"
    by_ranks: dict[int, list[str]] = {}
    for name, (ranks, value) in changes.items():
        if abs(value - 1) > LEAST_GAIN - 1:
            by_ranks.setdefault(ranks, []).append(f"{name} {signed(value - 1)}")
    if not by_ranks:
        return f"{begin}, the predicted samples/s would be the same."
    words = [f"at {ranks:,} ranks {enumerated(names)}" for ranks, names in by_ranks.items()]
    sentence = f"{begin}, predicted samples/s would change by this: {'; '.join(words)}"
    pair = both(one, by_textbook=True)
    if pair is None or ZERO1 not in {line.sharding for line in lines}:
        return f"{sentence}."
    ratios = _ratios(*pair)
    faster = _faster(ratios)
    where = f"at {_listed(faster, ratios)} ranks" if faster else "at no world size"
    return f"{sentence}. ZeRO-1 would be predicted to be faster than DDP {where}."


def absolute(error: float) -> str:
    """Of an absolute error: `0 %`, `0.02 %`, `3.4 %`."""
    return "0 %" if error == 0 else f"{100 * error:.2g} %" if error < 0.1 else share(error)


def signed(error: float) -> str:
    """`+3.4 %`, `-12 %`."""
    shown = f"{100 * error:+.1f}" if abs(error) < 0.995 else f"{100 * error:+,.0f}"
    return f"{shown.replace('-', chr(0x2212))} %" if float(shown.replace(",", "")) else "±0.0 %"
