"""What counts as training like the reference."""

import math

import pytest

from bench.config.choices import LOSS_TOLERANCE, PRECISIONS
from bench.errors import LaunchFailed
from bench.launch.messages import TensorDifference
from bench.measure.parity import (
    GRADIENT_TOLERANCE,
    NOISE_MULTIPLE,
    OWN_MULTIPLE,
    Tolerances,
    Trajectory,
    check_parity,
    check_tensors,
    judge_tensors,
)

REFERENCE = [10.0, 9.9, 9.5, 9.4]


def check_losses(losses: list[float], reference: list[float], tolerance: float) -> float:
    norms = (1.0,) * len(losses)
    return check_parity(
        Trajectory(losses=tuple(losses), gradient_norms=norms),
        Trajectory(losses=tuple(reference), gradient_norms=norms),
        Tolerances(loss=tolerance, gradient_norm=0.01),
    )


@pytest.mark.parametrize(("norm", "why"), [(2.0, "differs"), (0.0, "zero"), (math.inf, "not finite")])
def test_gradients_of_another_scale_have_diverged_though_adam_s_losses_follow(norm: float, why: str) -> None:
    ours = Trajectory(losses=tuple(REFERENCE), gradient_norms=(1.0, 1.0, 1.0, norm))
    reference = Trajectory(losses=tuple(REFERENCE), gradient_norms=(1.0,) * 4)
    with pytest.raises(LaunchFailed, match=why):
        check_parity(ours, reference, Tolerances(loss=0.01, gradient_norm=0.01))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_in_every_precision_a_sum_taken_for_a_mean_is_seen(precision: str) -> None:
    losses, norms = tuple(REFERENCE), (1.0,) * 4
    reference = Trajectory(losses=losses, gradient_norms=norms)
    summed = Trajectory(losses=losses, gradient_norms=(2.0,) * 4)
    rounded = Trajectory(losses=losses, gradient_norms=(1 + GRADIENT_TOLERANCE[precision] / 2,) * 4)
    tolerances = Tolerances(loss=LOSS_TOLERANCE[precision], gradient_norm=GRADIENT_TOLERANCE[precision])
    assert check_parity(rounded, reference, tolerances) == 0
    with pytest.raises(LaunchFailed, match="differs"):
        check_parity(summed, reference, tolerances)


def check_other_update(losses: list[float], norms: tuple[float, ...]) -> float:
    """With an optimizer that makes another update than the reference's."""
    return check_parity(
        Trajectory(losses=tuple(losses), gradient_norms=norms),
        Trajectory(losses=tuple(REFERENCE), gradient_norms=(1.0,) * 4),
        Tolerances(loss=1e-4, gradient_norm=0.01),
        same_update=False,
    )


def test_another_update_is_judged_by_the_first_step_and_its_later_losses_are_reported() -> None:
    assert check_other_update([10.0, 9.5, 9.0, 8.0], (1.0, 2.0, 3.0, 4.0)) == pytest.approx(1.4 / 9.4)


@pytest.mark.parametrize(
    ("losses", "norms", "why"),
    [
        ([10.1, 9.9, 9.5, 9.4], (1.0,) * 4, "the loss differs"),
        ([10.0, 9.9, 9.5, 9.4], (1.1, 1.0, 1.0, 1.0), "the gradient's norm differs"),
        ([10.0, 9.9, 10.5, 10.4], (1.0,) * 4, "rises"),
        ([10.0, 9.9, math.nan, 9.4], (1.0,) * 4, "not finite"),
    ],
)
def test_another_update_has_diverged_if_its_first_step_or_its_direction_is_wrong(
    losses: list[float], norms: tuple[float, ...], why: str
) -> None:
    with pytest.raises(LaunchFailed, match=why):
        check_other_update(losses, norms)


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


def off_by(error: float, noise: float = 1e-6, name: str = "gradient a") -> TensorDifference:
    return TensorDifference(name=name, error=error, norm=1.0, noise=noise)


def check(ours: list[TensorDifference], reference: list[TensorDifference] | None = None) -> None:
    check_tensors(judge_tensors(ours, reference or []), "fp32")


def test_a_tensor_may_be_off_by_a_multiple_of_its_noise() -> None:
    check([off_by(0.99e-6 * NOISE_MULTIPLE)])
    with pytest.raises(LaunchFailed, match=r"the gradient a of the first step in fp32 differs") as caught:
        check([off_by(1.1e-6 * NOISE_MULTIPLE)])
    assert caught.value.status == "diverged"


def test_a_buffer_may_follow_another_convention_but_must_be_updated() -> None:
    check([off_by(0.005, name="buffer running_var")])
    with pytest.raises(LaunchFailed, match=r"buffer running_var of the first step in fp32 .* by 0.1 of it"):
        check([off_by(0.1, name="buffer running_var")])


def test_a_tensor_of_nothing_but_noise_may_be_all_off() -> None:
    check([TensorDifference(name="gradient key.bias", error=2e-9, norm=1e-9, noise=1e-9)])


def test_in_16_bits_a_tensor_may_be_off_by_a_multiple_of_the_reference_s_own_error() -> None:
    check([off_by(0.99e-2 * OWN_MULTIPLE)], [off_by(0.01)])
    with pytest.raises(LaunchFailed, match=f"and {0.01 * OWN_MULTIPLE:.2g} is allowed"):
        check([off_by(1.1e-2 * OWN_MULTIPLE)], [off_by(0.01)])


def test_the_worst_tensor_is_named_and_the_others_are_counted() -> None:
    ours = [off_by(0.1), off_by(0.3, name="gradient b"), off_by(0.0, name="gradient c")]
    with pytest.raises(LaunchFailed, match=r"the gradient b of .*1 more of 3 tensors are off"):
        check(ours)
    assert [one.tensor for one in judge_tensors(ours)] == ["gradient b", "gradient a", "gradient c"]


def test_a_tensor_that_nobody_expects_or_that_is_not_finite_is_wrong() -> None:
    extra = TensorDifference(name="gradient head", error=0.5, norm=0.0, noise=0.0)
    with pytest.raises(LaunchFailed, match=r"0\.5 where nothing is expected"):
        check([extra])
    for error in (math.nan, math.inf):
        with pytest.raises(LaunchFailed, match=f"by {error}"):
            check([off_by(error)])


def test_zero_where_zero_is_expected_is_right() -> None:
    check([TensorDifference(name="gradient unused", error=0.0, norm=0.0, noise=0.0)])
