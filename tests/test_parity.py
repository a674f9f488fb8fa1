"""What counts as training like the reference."""

import math

import pytest

from bench.errors import LaunchFailed
from bench.parity import check_losses

REFERENCE = [10.0, 9.9, 9.5, 9.4]


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
