"""What counts as training like the reference."""

import math

import pytest

from bench.config.choices import LOSS_TOLERANCE, PRECISIONS
from bench.errors import LaunchFailed
from bench.launch.messages import GRADIENTS, ExpectedTensor
from bench.measure.plan.plans import Tolerances
from bench.measure.plan.resolve import GRADIENT_TOLERANCE
from bench.measure.stages.judging import (
    COARSE_FLOOR,
    LATER_FLOORS,
    LATER_MULTIPLE,
    NOISE_MULTIPLE,
    OWN_MULTIPLE,
    Trajectory,
    check_later_losses,
    check_parity,
    check_tensors,
    judge_tensors,
    mean_over_ranks,
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
        ([10.1, 9.9, 9.5, 9.4], (1.0,) * 4, "the loss of step 1 is 10.1 and differs"),
        ([10.0, 9.9, 9.5, 9.4], (1.1, 1.0, 1.0, 1.0), "the gradient's norm of step 1 is 1.1 and differs"),
        ([10.0, 9.9, math.nan, 9.4], (1.0,) * 4, "not finite"),
    ],
)
def test_another_update_has_diverged_if_its_first_step_is_wrong(
    losses: list[float], norms: tuple[float, ...], why: str
) -> None:
    with pytest.raises(LaunchFailed, match=why):
        check_other_update(losses, norms)


def test_the_difference_is_the_largest_relative_one() -> None:
    assert check_losses([10.0, 9.9, 9.5095, 9.4], REFERENCE, 0.01) == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("losses", "why"),
    [
        ([10.0, 9.9, 9.5, 9.5], "the loss of step 4 is 9.5 and differs from the reference's, 9.4, by 0.011"),
        ([10.0, math.nan, 9.5, 9.4], "not finite"),
        ([10.0, 9.9, 9.5, math.inf], "not finite"),
    ],
)
def test_a_loss_that_does_not_follow_has_diverged(losses: list[float], why: str) -> None:
    with pytest.raises(LaunchFailed, match=why) as caught:
        check_losses(losses, REFERENCE, 0.01)
    assert caught.value.status == "diverged"


def test_ranks_that_overflow_to_either_side_have_diverged() -> None:
    losses = mean_over_ranks([[10.0, 9.9, math.inf, 9.4], [10.0, 9.9, -math.inf, 9.4]])
    with pytest.raises(LaunchFailed, match="not finite"):
        check_losses(list(losses), REFERENCE, 0.01)


@pytest.mark.parametrize("losses", [[2.0, 3.0, 2.0, 3.0], [2.0, 3.0, 2.0], REFERENCE[::-1]])
def test_a_loss_may_hold_fall_or_rise_as_the_reference_s_does(losses: list[float]) -> None:
    assert check_losses(losses, losses, 1e-4) == 0


NAMES = (
    "gradient b",
    "gradient c",
    "buffer running_var",
    "weight update a",
    *(f"{kind} a" for kind in GRADIENTS),
)
EXPECTED = dict.fromkeys(NAMES, ExpectedTensor(norm=1.0, noise=1e-6)) | {
    "gradient key.bias": ExpectedTensor(norm=1e-9, noise=1e-9),
    "gradient noisy": ExpectedTensor(norm=1.0, noise=0.01),
    "last gradient noisy": ExpectedTensor(norm=1.0, noise=0.01),
    "weight update noisy": ExpectedTensor(norm=1.0, noise=0.01),
    "gradient unused": ExpectedTensor(norm=0.0, noise=0.0),
}


def check(ours: dict[str, float], reference: dict[str, float] | None = None) -> None:
    precision = "fp32" if reference is None else "bf16"
    check_tensors(judge_tensors(ours, EXPECTED, precision, reference), precision)


@pytest.mark.parametrize(
    ("tensor", "allowed", "wrong", "own_error"),
    [
        ("gradient a", 0.99e-6 * NOISE_MULTIPLE, 1.1e-6 * NOISE_MULTIPLE, None),
        *((f"{kind} a", 0.99 * floor, 1.01 * floor, None) for kind, floor in LATER_FLOORS.items()),
        ("weight update noisy", 0.0099 * LATER_MULTIPLE, 0.0101 * LATER_MULTIPLE, None),
        ("buffer running_var", 0.005, 0.1, None),  # by another convention
        ("gradient a", 0.99e-2 * OWN_MULTIPLE, 1.1e-2 * OWN_MULTIPLE, 0.01),
        ("weight update a", 0.9 * COARSE_FLOOR, 1.0, 0.01),
        ("gradient a", 0.0, math.nan, None),
        ("gradient a", 0.0, math.inf, None),
        ("gradient key.bias", 2e-9, 1.0, None),  # nothing but noise
        ("gradient unused", 0.0, 0.5, None),
        ("gradient head", 0.0, 0.5, None),  # which nobody expects
    ],
)
def test_a_tensor_may_be_off_by_what_its_kind_and_noise_allow_and_no_more(
    tensor: str, allowed: float, wrong: float, own_error: float | None
) -> None:
    """In 16 bits by a multiple of the reference's own error."""
    reference = None if own_error is None else {tensor: own_error}
    check({tensor: allowed}, reference)
    with pytest.raises(LaunchFailed, match=f"the {tensor} .*in (fp32|bf16) ") as caught:
        check({tensor: wrong}, reference)
    assert caught.value.status == "diverged"


@pytest.mark.parametrize("noise", [0.5, 0.011, math.inf])
@pytest.mark.parametrize("kind", ["gradient", "last gradient", "weight update", "buffer"])
def test_a_lost_tensor_is_seen_however_large_its_noise(kind: str, noise: float) -> None:
    kinds = ("gradient", "last gradient", "weight update", "buffer")
    expected = {f"{one} a": ExpectedTensor(norm=1.0, noise=noise) for one in kinds}
    (found,) = judge_tensors({f"{kind} a": 1.0}, expected, "fp32")
    assert found.share() > 1


def test_a_weight_with_a_gradient_of_noise_alone_may_move_anywhere() -> None:
    expected = {f"{kind} a": ExpectedTensor(norm=1.0, noise=1e-6) for kind in ("gradient", "last gradient")}
    expected |= {"gradient b": ExpectedTensor(norm=1e-8, noise=1e-8)}
    expected |= {"last gradient b": ExpectedTensor(norm=1e-8, noise=1e-8)}
    expected |= {"weight update b": ExpectedTensor(norm=1.0, noise=1.2)}
    (found,) = judge_tensors({"weight update b": 2.0}, expected, "fp32")
    assert found.share() < 1


@pytest.mark.parametrize(("off", "passes"), [(1.97, True), (2.03, False)])
def test_one_element_with_a_gradient_of_rounding_may_take_its_first_step_the_other_way(
    off: float, passes: bool
) -> None:
    """As 1 of 6,144 elements of a weight of MobileViT did once it was compiled, on an AMD EPYC (25/17)."""
    lr = 1e-4
    update = ExpectedTensor(norm=2.67e-2, noise=1e-7, flip=2 * lr)
    (verdict,) = judge_tensors({"weight update a": off * lr}, EXPECTED | {"weight update a": update}, "fp32")
    assert (verdict.share() <= 1) == passes


def test_another_update_than_adamw_s_is_judged_by_the_first_step_and_by_the_weights_direction() -> None:
    ours = {"gradient a": 1e-6, "last gradient a": 0.1, "weight update a": 1.0}
    found = judge_tensors(ours, EXPECTED, "fp32", same_update=False)
    assert {one.tensor for one in found if one.share() <= 1} == {"gradient a", "weight update a"}
    with pytest.raises(LaunchFailed, match=r"the weight update a in fp32 .* by 2 of it"):
        check_tensors(judge_tensors({"weight update a": 2.0}, EXPECTED, "fp32", same_update=False), "fp32")


def test_where_adamw_s_steps_undo_each_other_another_update_may_move_as_far_as_they_could_have() -> None:
    expected = EXPECTED | {"weight update a": ExpectedTensor(norm=1.0, noise=1e-6, reach=5.0)}
    (near,) = judge_tensors({"weight update a": 2.3}, expected, "fp32", same_update=False)
    (far,) = judge_tensors({"weight update a": 2.6}, expected, "fp32", same_update=False)
    (same,) = judge_tensors({"weight update a": 2.3}, expected, "fp32")
    assert near.share() < 1 < min(far.share(), same.share())


LATER = [2.0 + 0.5 ** (step % 5) for step in range(100)]


def test_losses_of_timed_steps_may_drift_but_not_jump() -> None:
    drifting = [loss * (1 + 1e-7 * 1.14**step) for step, loss in enumerate(LATER)]
    check_later_losses(drifting[:90], LATER, 1e-4)
    for step in (0, 7, 60):
        wrong = [loss * (1.02 if place >= step else 1.0) for place, loss in enumerate(drifting)]
        with pytest.raises(LaunchFailed, match=f"the loss of step {step + 1} is"):
            check_later_losses(wrong, LATER, 1e-4)


def test_the_worst_tensor_is_named_and_the_others_are_counted() -> None:
    ours = {"gradient a": 0.1, "gradient b": 0.3, "gradient c": 0.0}
    with pytest.raises(LaunchFailed, match=r"the gradient b of .*1 more of 3 tensors are off"):
        check(ours)
    assert [one.tensor for one in judge_tensors(ours, EXPECTED, "fp32")] == [
        "gradient b",
        "gradient a",
        "gradient c",
    ]


VALUE, OTHER, KEY = (
    f"bert.encoder.layer.18.attention.self.{name}.bias" for name in ("value", "query", "key")
)
ATTENTION = {
    f"gradient {VALUE}": ExpectedTensor(norm=6e-3, noise=6e-9),
    f"gradient {OTHER}": ExpectedTensor(norm=1e-3, noise=1e-9),
    f"gradient {KEY}": ExpectedTensor(norm=2.6e-11, noise=3.5e-11),
    f"last gradient {VALUE}": ExpectedTensor(norm=3e-3, noise=3e-9),
    f"last gradient {OTHER}": ExpectedTensor(norm=1e-9, noise=1e-12),
    f"last gradient {KEY}": ExpectedTensor(norm=2.61e-11, noise=3.52e-11),
    f"weight update {VALUE}": ExpectedTensor(norm=8e-3, noise=1e-7),
    f"weight update {OTHER}": ExpectedTensor(norm=8e-3, noise=1e-7),
    f"weight update {KEY}": ExpectedTensor(norm=1e-5, noise=1e-5),
    "weight update head.bias": ExpectedTensor(norm=8e-3, noise=1e-7),
    "gradient head.bias": ExpectedTensor(norm=1e-9, noise=1e-15),
    "last gradient head.bias": ExpectedTensor(norm=1e-9, noise=1e-15),
}
"""An attention of bert-large: the keys' last gradient as an H100 had it, the others as they are beside it."""


def check_attention(ours: dict[str, float], precision: str, own: float = 0.0) -> None:
    reference = None if precision == "fp32" else dict.fromkeys(ATTENTION, own)
    check_tensors(judge_tensors(ours, ATTENTION, precision, reference), precision)


def test_what_an_attention_s_kernel_rounds_is_no_wrong_gradient_and_no_wrong_movement() -> None:
    ours = {f"last gradient {KEY}": 1.674e-6, f"weight update {KEY}": 8e-3}
    check_attention(ours, "bf16", own=5.85e-10)


def test_in_fp32_there_is_more_room_for_it_than_its_noise_leaves() -> None:
    layer = "last gradient bert.encoder.layer.8.attention.self"
    expected = {
        f"{layer}.key.bias": ExpectedTensor(norm=1.285e-12, noise=2.04e-12),
        f"{layer}.value.bias": ExpectedTensor(norm=1e-3, noise=1e-9),
    }
    (found,) = judge_tensors({f"{layer}.key.bias": 3.85e-11}, expected, "fp32")
    assert found.share() < 0.5, "0.94 on the H100, of 20 times the noise"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", [VALUE, OTHER, "head.bias"])
def test_an_update_that_is_lost_beside_it_is_seen(precision: str, name: str) -> None:
    with pytest.raises(LaunchFailed, match=f"weight update {name}"):
        check_attention({f"weight update {name}": 8e-3}, precision)


def test_what_is_rounding_alone_moves_no_farther_than_its_peers() -> None:
    for error in (0.02, math.inf):
        with pytest.raises(LaunchFailed, match=f"weight update {KEY}"):
            check_attention({f"weight update {KEY}": error}, "bf16")


def test_a_weight_without_any_gradient_decays_all_the_same() -> None:
    expected = {
        f"{kind} unused": ExpectedTensor(norm=0.0, noise=0.0) for kind in ("gradient", "last gradient")
    }
    expected["weight update unused"] = ExpectedTensor(norm=1e-3, noise=1e-9)
    (found,) = judge_tensors({"weight update unused": 1e-3}, expected, "bf16", {})
    assert found.share() > 1


def test_only_peers_lend_their_rounding() -> None:
    """A part of another layer, another name, or another kind is no peer; nor is what is in no layer."""
    large = {"gradient h.1.attn.q.bias", "gradient h.0.mlp.q.bias", "gradient h.0.attn.q.weight"}
    large |= {"last gradient h.0.attn.q.bias", "gradient head.bias"}
    small = {"gradient h.0.attn.k.bias": 1e-6, "gradient final.bias": 1e-6}
    expected = {name: ExpectedTensor(norm=1.0, noise=0.0) for name in large}
    expected |= {name: ExpectedTensor(norm=norm, noise=0.0) for name, norm in small.items()}
    verdicts = judge_tensors(small, expected, "bf16", {})
    assert all(one.share() > 1 for one in verdicts)
    peer = {"gradient h.0.attn.q.bias": ExpectedTensor(norm=1.0, noise=0.0)}
    assert judge_tensors(small, expected | peer, "bf16", {})[-1].share() < 1
