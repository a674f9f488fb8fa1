"""Does a backend train like the reference? Judged with dropout off, before anything is timed."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.errors import LaunchFailed
from bench.launch.messages import BUFFER, GRADIENTS, WEIGHT_UPDATE, ExpectedTensor
from bench.measure.plan.plans import Tolerances
from bench.results import arithmetic
from bench.results.records import TensorVerdict

NOISE_MULTIPLE, LATER_MULTIPLE = 100.0, 20.0
"""How many times the rounding error a tensor of the first step may be off, and one of a later step."""

OWN_MULTIPLE = 10.0  # how many times the reference's error in the comparison's own precision it may be off
FLOOR = 1e-4  # how far any tensor of the first step may be off, relative to it

LATER_FLOORS = dict.fromkeys(GRADIENTS[1:], 0.015) | {WEIGHT_UPDATE: 0.005}
"""How far a tensor of a later step may be off: several times what a single ReLU changes that
rounding switches on or off."""

COARSE_FLOOR = 0.7
"""How far a tensor of a later step may be off in precisions that round more than fp32: this
finds only lost updates."""

SMALLEST = 1e-30  # of a loss, so that one of exactly zero can be divided by

JUMP, MOST_DRIFT = 10.0, 0.1
"""How far the loss of a timed step may be off: as a multiple of all earlier steps' error, and at most.

Rounding drifts slowly: by 3e-7 in 190 steps of BERT and GPT-2 (miniatures in fp32, four backends), 1e-4 in
660 of a batch norm, 7e-3 in 198 of T5, 4e-5 in 71 of BERT in bf16, and at most 2.2 times as far as before. A
module that changes its work after 12 steps jumps from 1e-7 to 2e-2.
"""

LEAST_SHARE = 0.1  # losses smaller than this share of the first step's count as that large

ANOTHER_WAY = 1.5
"""How far a weight update may be off where the update is not AdamW's: the opposite one is off by 2.

Or by half of its `reach`, where AdamW's steps undo each other, or move few rows of an embedding: Adafactor
moves the elements of a tensor by the learning rate in the root mean square, however few have a gradient.
"""

ROUNDING = {"fp32": 2.0**-23, "tf32": 2.0**-10, "fp16": 2.0**-10, "bf16": 2.0**-7}
"""By precision, the relative distance of its neighbouring numbers: how far a gradient may be off, relative to
the largest one of its peers.

An attention's kernel rounds its output before it takes from the gradients of a row of scores what they share.
What that leaves in the gradients of queries and keys is up to an eighth of this, of the values' gradient, and
may be far larger than they are.
"""

UPDATE_MULTIPLE = 2.0
"""How many times the largest update of its peers a weight may be off if its gradients are below that."""

LOST = 0.9
"""How far noise lets a tensor be off at most, relative to it: so a lost one is seen, if not noise alone."""

NOISE_ALONE = 1e-6
"""A tensor no larger than this, relative to the largest of its kind, may be noise alone. In 13 small models
such gradients had up to 1.4e-8, and all others at least 6.9e-7, with a noise of at most 0.06 % of them."""

NOTHING = ExpectedTensor(norm=0.0, noise=0.0)  # what is expected of a tensor that plain PyTorch does not have

BUFFER_TOLERANCE = 0.01
"""How far a buffer may be off, relative to it.

In a batch norm's running variance ONNX divides by n, PyTorch by n - 1. One that is not updated is off by a
tenth of it or more.
"""


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """What one backend did in the parity launch, step by step; means over the ranks.

    Steps that fp16 skips, since a gradient overflowed, are not among them: they were taken again.
    """

    losses: tuple[float, ...]  # of every step
    gradient_norms: tuple[float, ...]  # of every step, over all parameters


def mean_over_ranks(figures: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean over the ranks of a figure of every step; one sequence of steps for each rank."""
    return tuple(map(arithmetic.mean, zip(*figures, strict=True)))


def check_parity(
    ours: Trajectory, reference: Trajectory, tolerances: Tolerances, *, same_update: bool = True
) -> float:
    """The largest relative difference of the losses from the reference's, step by step; or `diverged`.

    Without the `same_update`, by the optimizer, only the first step must be the same.
    """
    if not all(map(math.isfinite, (*ours.losses, *ours.gradient_norms))):
        raise LaunchFailed("diverged", "the loss or its gradient is not finite with dropout off")
    if min(ours.gradient_norms) <= 0:
        raise LaunchFailed("diverged", "the gradient is zero with dropout off: nothing is learnt")
    compared = len(ours.losses) if same_update else 1
    for what, figures, others, tolerance in (
        ("loss", ours.losses, reference.losses, tolerances.loss),
        ("gradient's norm", ours.gradient_norms, reference.gradient_norms, tolerances.gradient_norm),
    ):
        named = [f"{what} of step {step}" for step in range(1, compared + 1)]
        check_series(named, figures[:compared], others[:compared], tolerance)
    return max(relative_differences(ours.losses, reference.losses))


def name_losses(batches: Sequence[Sequence[int]], when: str) -> list[str]:
    """The names of micro-batches' losses in messages; the numbers of micro-batches are given by rank."""
    numbers = ((rank, number) for rank, of_rank in enumerate(batches) for number in of_rank)
    return [f"loss of batch {number} of rank {rank} {when}" for rank, number in numbers]


def check_series(
    names: Sequence[str],
    ours: Sequence[float],
    reference: Sequence[float],
    tolerance: float,
    least: float = SMALLEST,
) -> float:
    """The largest difference from the reference's, relative to these or to `least`; or `diverged`."""
    differences = relative_differences(ours, reference, least)
    wrong = [difference for difference in differences if not difference <= tolerance]
    if wrong:
        place = differences.index(max(wrong))
        raise LaunchFailed(
            "diverged",
            f"the {names[place]} is {ours[place]:.4g} and differs from the reference's, "
            f"{reference[place]:.4g}, by {differences[place]:.2g} (relative), more than {tolerance:g}"
            + (f" (as {len(wrong) - 1} more of {len(names)})" if len(wrong) > 1 else ""),
        )
    return max(differences)


def check_later_losses(ours: Sequence[float], reference: Sequence[float], tolerance: float) -> None:
    """Compare the losses of a launch's steps, as far as both have come, or `diverged`."""
    allowed, least = tolerance, LEAST_SHARE * abs(reference[0])
    for step, (our, other) in enumerate(zip(ours, reference, strict=False), start=1):
        difference = check_series([f"loss of step {step}"], [our], [other], allowed, least)
        allowed = min(max(allowed, JUMP * difference), MOST_DRIFT)


def judge_tensors(
    ours: Mapping[str, float],
    expected: Mapping[str, ExpectedTensor],
    precision: str,
    reference: Mapping[str, float] | None = None,
    *,
    same_update: bool = True,
) -> list[TensorVerdict]:
    """Compare gradients, buffers and weight updates with plain PyTorch's in fp32; the worst tensors first.

    A tensor may be off by a multiple of what rounding changes in it, or of what the reference is off itself
    where that is more, as in 16 bits, or by what rounding leaves of the gradients beside it. Of an optimizer
    without AdamW's update only the first step can be judged, and that no weight moves the other way.
    """
    own = reference or {}
    leftovers = _leftovers_of_rounding(expected, precision)
    most = _most_by_noise(expected)
    verdicts = []
    for name, error in ours.items():
        tensor = expected.get(name, NOTHING)
        kind = _kind_of(name)
        multiple, floor = NOISE_MULTIPLE, BUFFER_TOLERANCE if kind == BUFFER else FLOOR
        if kind in LATER_FLOORS:
            if not same_update and kind != WEIGHT_UPDATE:
                continue
            multiple, floor = LATER_MULTIPLE, LATER_FLOORS[kind] if reference is None else COARSE_FLOOR
            floor = floor if same_update else ANOTHER_WAY
        allowed = max(
            min(multiple * tensor.noise, most.get(name, math.inf)),
            floor * tensor.norm,
            min(tensor.flip, most.get(name, math.inf)),
            OWN_MULTIPLE * own.get(name, 0.0),
            leftovers.get(name, 0.0),
            0.0 if same_update else tensor.reach / 2,
        )
        verdicts.append(
            TensorVerdict(tensor=name, error=error, norm=tensor.norm, noise=tensor.noise, allowed=allowed)
        )
    return sorted(verdicts, key=TensorVerdict.share, reverse=True)


def _most_by_noise(expected: Mapping[str, ExpectedTensor]) -> dict[str, float]:
    """How far noise may at most let each tensor be off that is more than rounding, or moved by more."""
    largest: dict[str, float] = {}
    for name, one in expected.items():
        largest[_kind_of(name)] = max(one.norm, largest.get(_kind_of(name), 0.0))
    known = {name for name, one in expected.items() if one.norm > NOISE_ALONE * largest[_kind_of(name)]}
    return {
        name: LOST * expected[name].norm
        for name in known
        if _kind_of(name) != WEIGHT_UPDATE or known.issuperset(_gradients_of(name, expected))
    }


def _gradients_of(update: str, expected: Mapping[str, ExpectedTensor]) -> list[str]:
    gradients = (update.replace(WEIGHT_UPDATE, kind, 1) for kind in GRADIENTS)
    return [gradient for gradient in gradients if gradient in expected]


def _leftovers_of_rounding(expected: Mapping[str, ExpectedTensor], precision: str) -> dict[str, float]:
    """How far rounding may leave gradients off, and weight updates whose gradients are smaller than that."""
    largest: dict[tuple[str, ...], float] = {}
    for tensor, one in expected.items():
        largest[_peers_of(tensor)] = max(one.norm, largest.get(_peers_of(tensor), 0.0))
    leftovers = {
        tensor: ROUNDING[precision] * largest[_peers_of(tensor)]
        for tensor in expected
        if _kind_of(tensor) in GRADIENTS
    }
    for tensor in [name for name in expected if _kind_of(name) == WEIGHT_UPDATE]:
        gradients = _gradients_of(tensor, expected)
        if max(expected[one].norm for one in gradients) < max(leftovers[one] for one in gradients):
            leftovers[tensor] = UPDATE_MULTIPLE * largest[_peers_of(tensor)]
    return leftovers


def _peers_of(tensor: str) -> tuple[str, ...]:
    """A key that is equal for tensors of a kind and name (weight, bias) in one part of a repeated layer.

    Queries, keys and values of an attention share it, too. A tensor outside layers has its own key.
    """
    match = re.match(r"(.*\.\d+\.[^.]+\.).*?([^.]+)$", tensor)
    return match.groups() if match else (tensor,)


def _kind_of(tensor: str) -> str:
    """A tensor's kind: the words before its name in the model, which has no space."""
    return tensor.rpartition(" ")[0]


def check_tensors(verdicts: Sequence[TensorVerdict], precision: str) -> None:
    """Raise `diverged`, naming the tensor that is off the most, if one is by more than is allowed."""
    wrong = [verdict for verdict in verdicts if not verdict.share() <= 1]
    if not wrong:
        return
    worst = wrong[0]
    others = f" ({len(wrong) - 1} more of {len(verdicts)} tensors are off, too)" if len(wrong) > 1 else ""
    if worst.norm:
        by = f"{worst.error / worst.norm:.2g} of it, and {worst.allowed / worst.norm:.2g} is allowed"
    else:
        by = f"{worst.error:.2g} where nothing is expected"
    when = "" if _kind_of(worst.tensor) in LATER_FLOORS else " of the first step"
    raise LaunchFailed(
        "diverged",
        f"the {worst.tensor}{when} in {precision} differs from plain PyTorch's in fp32 by {by}{others}",
    )


def relative_differences(
    ours: Sequence[float], reference: Sequence[float], least: float = SMALLEST
) -> list[float]:
    """How far two series are apart step by step, relative to the second; infinite where one is no number."""
    pairs = zip(ours, reference, strict=True)
    differences = [abs(our - other) / max(abs(other), least) for our, other in pairs]
    return [math.inf if math.isnan(difference) else difference for difference in differences]
