"""What a step sends under each sharding: volumes, buckets, when, and what a library pads."""

import pytest

from bench.studies.collectives.sent import SENT, Collective, sent_bytes
from bench.studies.scale.traffic import (
    AFTER_BACKWARD,
    AFTER_UPDATE,
    BACKWARD,
    DEEPSPEED_BUCKET,
    FORWARD,
    MIB,
    SHARDINGS,
    Traffic,
    sent_in_a_step,
    traffic_of,
)
from tests.studies.scale.shapes import facts_of_shapes

MILLION = 1_000_000

SMALL = [10 * MILLION] * 12
"""Tensors of a model that DeepSpeed's stage 3 keeps gathered."""

LARGE = [100 * MILLION] * 12
"""Of one that it does not."""


def of(
    sharding: str, tensors: list[int] = SMALL, *, ranks: int = 8, sixteen_bits: bool = False
) -> list[Traffic]:
    return traffic_of(sharding, facts_of_shapes(tensors, layers=5), ranks=ranks, sixteen_bits=sixteen_bits)


def volume(found: list[Traffic], parameters: int) -> float:
    """Elements per parameter that a rank sends in a step of one micro-batch, but for the share 1 / N."""
    return sum(SENT[one.kind] * one.elements for one in found) / parameters


def calls(found: list[Traffic]) -> list[tuple[str, str]]:
    return [(one.kind, one.moment) for one in found]


# --- volumes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sharding", "small", "large"),
    [
        ("ddp", 2, 2),
        ("zero_redundancy", 3, 3),  # every rank sends what it has updated
        ("zero1", 3, 3),  # an all-reduce where the paper has a reduce-scatter
        ("zero2", 3, 3),
        ("zero3", 2, 3),  # up to a billion parameters stay gathered
        ("fsdp2", 3, 3),
    ],
)
def test_the_libraries_send_as_many_as_were_counted(sharding: str, small: float, large: float) -> None:
    for tensors, expected in ((SMALL, small), (LARGE, large)):
        assert volume(of(sharding, tensors), sum(tensors)) == pytest.approx(expected, rel=1e-6)


def test_bytes_of_rules_and_of_counted_calls_are_the_same_thing() -> None:
    found = of("zero1")
    calls = [
        Collective(kind=one.kind, bytes=elements * one.element_bytes, element_bytes=one.element_bytes)
        for one in found
        for elements in one.sizes
    ]
    assert sum(sent_bytes(call, 8) for call in calls) == pytest.approx(sent_in_a_step(found, 8, 1))
    numbers = volume(found, sum(SMALL)) * sum(SMALL) * 7 / 8
    assert sent_in_a_step(found, 8, 1) == pytest.approx(4 * numbers)


@pytest.mark.parametrize(("kind", "times"), SENT.items())
def test_a_rank_sends_all_but_its_own_part(kind: str, times: int) -> None:
    collective = Collective(kind=kind, bytes=1000, element_bytes=4)
    assert sent_bytes(collective, 4) == times * 750
    assert sent_bytes(collective, 1) == 0
    assert sent_bytes(Collective(kind="barrier", bytes=1000, element_bytes=4), 4) == 0


# --- who, when, how large -------------------------------------------------------------------------


def test_gradients_go_along_with_the_backward_pass_where_the_library_does_that() -> None:
    assert calls(of("ddp")) == [("all_reduce", BACKWARD)]
    assert calls(of("zero_redundancy")) == [("all_reduce", BACKWARD), ("broadcast", AFTER_UPDATE)]
    in_one_bucket = [("all_reduce", AFTER_BACKWARD), ("all_gather", AFTER_UPDATE)]
    assert calls(of("zero2")) == in_one_bucket
    assert calls(of("zero2", LARGE)) == [("all_reduce", BACKWARD), ("all_gather", AFTER_UPDATE)]
    gathered, scattered = ("all_gather", FORWARD), ("reduce_scatter", BACKWARD)
    assert calls(of("zero3")) == [gathered, scattered]
    assert calls(of("zero3", LARGE)) == [gathered, scattered, ("all_gather", BACKWARD)]
    assert calls(of("fsdp2")) == [gathered, ("all_gather", BACKWARD), scattered]


def test_weights_and_gradients_have_the_bytes_that_the_library_gives_them() -> None:
    for sharding in SHARDINGS:
        assert {one.element_bytes for one in of(sharding)} == {4}, sharding
    assert [one.element_bytes for one in of("fsdp2", sixteen_bits=True)] == [2, 2, 4]
    assert [one.element_bytes for one in of("ddp", sixteen_bits=True)] == [4], "autocast casts nothing sent"


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("tensors", [SMALL, LARGE, [3], [7, 11]], ids=["small", "large", "one", "two"])
def test_buckets_are_all_there_is_and_none_is_larger_than_it_may_be(
    sharding: str, tensors: list[int]
) -> None:
    assert of(sharding, tensors, ranks=1) == [], "one alone sends nothing"
    for one in of(sharding, tensors, ranks=2):
        assert min(one.sizes) > 0
        if sharding in ("zero1", "zero2"):
            assert max(one.sizes) <= DEEPSPEED_BUCKET


def test_ddp_sends_whole_tensors_the_last_ones_first() -> None:
    million = MIB  # numbers of 4 bytes: 4 MiB
    (gradients,) = of("ddp", [20 * million, 4 * million, 3 * million, 100_000, 200_000])
    # 200,000 are less than 1 MiB, with 100,000 more they suffice; then 25 MiB at least, whole tensors.
    assert gradients.sizes == [300_000, 7 * million, 20 * million]
    assert of("ddp", [1000])[0].sizes == [1000]


def test_layers_are_gathered_one_by_one_and_large_models_in_deepspeeds_buckets() -> None:
    for one in of("fsdp2"):
        assert one.sizes == [24 * MILLION] * 5
    for one in of("zero1", LARGE):
        assert one.sizes == [DEEPSPEED_BUCKET, DEEPSPEED_BUCKET, 200 * MILLION]
    weights, gradients, again = of("zero3", LARGE)
    assert weights.sizes == again.sizes == [240 * MILLION] * 5
    assert gradients.sizes == [DEEPSPEED_BUCKET, DEEPSPEED_BUCKET, 200 * MILLION]


def test_who_keeps_no_whole_gradients_sends_them_with_every_micro_batch() -> None:
    def repeated(sharding: str, tensors: list[int] = SMALL) -> list[str]:
        return [one.kind for one in of(sharding, tensors) if one.each_pass]

    assert repeated("ddp") == repeated("zero1") == []
    assert repeated("zero2") == ["all_reduce"]
    assert repeated("zero3") == ["reduce_scatter"], "a small model stays gathered"
    assert repeated("zero3", LARGE) == ["all_gather", "reduce_scatter", "all_gather"]
    once, twice = (sent_in_a_step(of("zero2"), 8, accum) for accum in (1, 2))
    assert twice / once == pytest.approx(5 / 3, rel=1e-6)


def test_what_is_divided_is_padded() -> None:
    reduced, gathered = of("zero1", [1001], ranks=4)
    assert (reduced.elements, gathered.elements) == (1001, 1008), "by twice as many as there are ranks"
    weights, gradients = of("zero3", [200_001, 300_002], ranks=4)
    assert weights.elements == gradients.elements == 200_004 + 300_004, "tensor by tensor"
    (even,) = of("ddp", [1001], ranks=4)
    assert even.elements == 1001


def test_small_tensors_stay_whole_and_are_gathered_after_the_update() -> None:
    found = of("zero3", [200_000, 100_000, 99_999, 10], ranks=2)
    assert calls(found) == [
        ("all_gather", FORWARD),
        ("reduce_scatter", BACKWARD),
        ("all_gather", AFTER_UPDATE),
    ]
    assert [one.elements for one in found] == [200_000, 400_010, 200_010]
    only_small = of("zero3", [1000, 10], ranks=2)
    assert calls(only_small) == [("reduce_scatter", BACKWARD), ("all_gather", AFTER_UPDATE)]
