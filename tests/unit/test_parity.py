"""What counts as training like the reference."""

import math

import pytest

from bench.config.choices import LOSS_TOLERANCE, PRECISIONS
from bench.errors import LaunchFailed
from bench.measure.parity import GRADIENT_TOLERANCE, Trajectory, check_parity

REFERENCE = [10.0, 9.9, 9.5, 9.4]


def check_losses(losses: list[float], reference: list[float], tolerance: float) -> float:
    norms = (1.0,) * len(losses)
    return check_parity(
        Trajectory(losses=tuple(losses), gradient_norms=norms),
        Trajectory(losses=tuple(reference), gradient_norms=norms),
        tolerance,
        0.01,
    )


@pytest.mark.parametrize(("norm", "why"), [(2.0, "differs"), (0.0, "zero"), (math.inf, "not finite")])
def test_gradients_of_another_scale_have_diverged_though_adam_s_losses_follow(norm: float, why: str) -> None:
    ours = Trajectory(losses=tuple(REFERENCE), gradient_norms=(1.0, 1.0, 1.0, norm))
    reference = Trajectory(losses=tuple(REFERENCE), gradient_norms=(1.0,) * 4)
    with pytest.raises(LaunchFailed, match=why):
        check_parity(ours, reference, 0.01, 0.01)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_in_every_precision_a_sum_taken_for_a_mean_is_seen(precision: str) -> None:
    losses, norms = tuple(REFERENCE), (1.0,) * 4
    reference = Trajectory(losses=losses, gradient_norms=norms)
    summed = Trajectory(losses=losses, gradient_norms=(2.0,) * 4)
    rounded = Trajectory(losses=losses, gradient_norms=(1 + GRADIENT_TOLERANCE[precision] / 2,) * 4)
    tolerances = LOSS_TOLERANCE[precision], GRADIENT_TOLERANCE[precision]
    assert check_parity(rounded, reference, *tolerances) == 0
    with pytest.raises(LaunchFailed, match="differs"):
        check_parity(summed, reference, *tolerances)


def test_the_difference_is_the_largest_relative_one() -> None:
    assert check_losses([10.0, 9.9, 9.5095, 9.4], REFERENCE, 0.01) == pytest.approx(0.001)


def test_equal_losses_differ_by_nothing() -> None:
    assert check_losses(REFERENCE, REFERENCE, 1e-4) == 0


@pytest.mark.parametrize(
    ("losses", "why"),
    [
        ([10.0, 9.9, 9.5, 9.5], "differs from the reference's by 0.011"),
        ([10.0, math.nan, 9.5, 9.4], "not finite"),
        ([10.0, 9.9, 9.5, math.inf], "not finite"),
    ],
)
def test_a_loss_that_does_not_follow_has_diverged(losses: list[float], why: str) -> None:
    with pytest.raises(LaunchFailed, match=why) as caught:
        check_losses(losses, REFERENCE, 0.01)
    assert caught.value.status == "diverged"


def test_a_loss_that_rises_has_diverged_even_if_the_reference_s_rises_too() -> None:
    with pytest.raises(LaunchFailed, match="rises"):
        check_losses(REFERENCE[::-1], REFERENCE[::-1], 0.01)


def test_a_loss_that_holds_is_fine() -> None:
    assert check_losses([2.0, 3.0, 2.0, 3.0], [2.0, 3.0, 2.0, 3.0], 1e-4) == 0
