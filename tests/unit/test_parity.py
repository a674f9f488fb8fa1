"""What counts as training like the reference."""

import math

import pytest

from bench.config.choices import LOSS_TOLERANCE, PRECISIONS
from bench.errors import LaunchFailed
from bench.launch.messages import ExpectedTensor
from bench.measure.parity import (
    COARSE_FLOOR,
    GRADIENT_TOLERANCE,
    LATER_FLOORS,
    LATER_MULTIPLE,
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


NAMES = ("gradient a", "gradient b", "gradient c", "buffer running_var", "last gradient a", "movement a")
EXPECTED = dict.fromkeys(NAMES, ExpectedTensor(norm=1.0, noise=1e-6)) | {
    "gradient key.bias": ExpectedTensor(norm=1e-9, noise=1e-9),
    "movement noisy": ExpectedTensor(norm=1.0, noise=0.01),
    "gradient unused": ExpectedTensor(norm=0.0, noise=0.0),
}


def check(ours: dict[str, float], reference: dict[str, float] | None = None) -> None:
    check_tensors(judge_tensors(ours, EXPECTED, reference), "fp32")


def test_a_tensor_may_be_off_by_a_multiple_of_its_noise() -> None:
    check({"gradient a": 0.99e-6 * NOISE_MULTIPLE})
    with pytest.raises(LaunchFailed, match=r"the gradient a of the first step in fp32 differs") as caught:
        check({"gradient a": 1.1e-6 * NOISE_MULTIPLE})
    assert caught.value.status == "diverged"


@pytest.mark.parametrize(("kind", "floor"), LATER_FLOORS.items())
def test_one_of_the_last_step_may_be_off_by_what_a_single_relu_changes(kind: str, floor: float) -> None:
    check({f"{kind} a": 0.99 * floor})
    with pytest.raises(LaunchFailed, match=f"the {kind} a in fp32 differs .* and {floor} is allowed"):
        check({f"{kind} a": 1.01 * floor})


def test_or_by_a_smaller_multiple_of_its_noise() -> None:
    check({"movement noisy": 0.0099 * LATER_MULTIPLE})
    with pytest.raises(LaunchFailed, match="the movement noisy in fp32"):
        check({"movement noisy": 0.0101 * LATER_MULTIPLE})


def test_in_16_bits_a_lost_update_is_seen_and_a_rounded_one_is_not() -> None:
    check({"movement a": 0.9 * COARSE_FLOOR}, {"movement a": 0.01})
    with pytest.raises(LaunchFailed, match="movement a"):
        check({"movement a": 1.0}, {"movement a": 0.01})


def test_another_update_than_adamw_s_is_judged_by_the_first_step_alone() -> None:
    ours = {"gradient a": 1e-6, "last gradient a": 0.1, "movement a": 1.0}
    (found,) = judge_tensors(ours, EXPECTED, same_update=False)
    assert found.tensor == "gradient a"


def test_a_buffer_may_follow_another_convention_but_must_be_updated() -> None:
    check({"buffer running_var": 0.005})
    with pytest.raises(LaunchFailed, match=r"buffer running_var of the first step in fp32 .* by 0.1 of it"):
        check({"buffer running_var": 0.1})


def test_a_tensor_of_nothing_but_noise_may_be_all_off() -> None:
    check({"gradient key.bias": 2e-9})


def test_in_16_bits_a_tensor_may_be_off_by_a_multiple_of_the_reference_s_own_error() -> None:
    check({"gradient a": 0.99e-2 * OWN_MULTIPLE}, {"gradient a": 0.01})
    with pytest.raises(LaunchFailed, match=f"and {0.01 * OWN_MULTIPLE:.2g} is allowed"):
        check({"gradient a": 1.1e-2 * OWN_MULTIPLE}, {"gradient a": 0.01})


def test_the_worst_tensor_is_named_and_the_others_are_counted() -> None:
    ours = {"gradient a": 0.1, "gradient b": 0.3, "gradient c": 0.0}
    with pytest.raises(LaunchFailed, match=r"the gradient b of .*1 more of 3 tensors are off"):
        check(ours)
    assert [one.tensor for one in judge_tensors(ours, EXPECTED)] == ["gradient b", "gradient a", "gradient c"]


def test_a_tensor_that_nobody_expects_or_that_is_not_finite_is_wrong() -> None:
    with pytest.raises(LaunchFailed, match=r"0\.5 where nothing is expected"):
        check({"gradient head": 0.5})
    for error in (math.nan, math.inf):
        with pytest.raises(LaunchFailed, match=f"by {error}"):
            check({"gradient a": error})


def test_zero_where_zero_is_expected_is_right() -> None:
    check({"gradient unused": 0.0})
