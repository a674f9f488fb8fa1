"""What a rank holds on many ranks."""

import itertools

import pytest

from bench.config.choices import DIVIDED
from bench.studies.scale.predict import bucket_bytes, predict_memory
from bench.studies.scale.traffic import DEEPSPEED_BUCKET

MANY = [1, 2, 3, 4, 7, 8, 16, 64, 1024]
PARAMETERS = 1_000_000


def held(
    sharding: str,
    ranks: int,
    *,
    parameters: int = PARAMETERS,
    trainable: int | None = None,
    optimizer: str = "adamw",
    on_cuda: bool = False,
) -> float:
    return predict_memory(
        sharding,
        parameters=parameters,
        trainable=parameters if trainable is None else trainable,
        ranks=ranks,
        on_cuda=on_cuda,
        optimizer=optimizer,
    )


def buckets(sharding: str, ranks: int, *, parameters: int = PARAMETERS, on_cuda: bool = False) -> float:
    return bucket_bytes(sharding, parameters=parameters, trainable=parameters, ranks=ranks, on_cuda=on_cuda)


def states(sharding: str, ranks: int) -> float:
    return held(sharding, ranks) - buckets(sharding, ranks)


def test_a_rank_holds_sixteen_bytes_of_a_parameter_and_every_gradient_twice_if_it_sends_them() -> None:
    assert [held("ddp", ranks) for ranks in (1, 2, 64)] == [16e6, 20e6, 20e6], "one alone sends nothing"


def test_stage_1_divides_the_states_stage_2_the_gradients_and_stage_3_the_weights() -> None:
    ranks = 8
    weights = gradients = 4e6
    # Each has the states and an fp32 copy of its part.
    divided = (8e6 + 4e6) / ranks
    assert states("zero1", ranks) == weights + gradients + divided
    assert states("zero2", ranks) == weights + gradients / ranks + divided
    assert states("zero3", ranks) == weights / ranks + gradients / ranks + divided
    assert states("zero_redundancy", ranks) == weights + gradients + 8e6 / ranks
    assert states("fsdp2", ranks) == 16e6 / ranks


def test_deepspeed_keeps_a_bucket_and_its_part_of_the_averaged_gradients() -> None:
    assert [buckets("zero1", ranks) for ranks in (1, 4)] == [4e6 + 4e6, 4e6 + 1e6]
    large = buckets("zero2", 4, parameters=2 * DEEPSPEED_BUCKET)
    assert large == 4 * (DEEPSPEED_BUCKET + DEEPSPEED_BUCKET / 2)
    assert buckets("fsdp2", 4) == 0
    # With a stream for it, it sends one bucket while it fills another.
    assert buckets("zero1", 4, on_cuda=True) == 8e6 + 1e6
    # Stage 3 puts tensors in order in another bucket, which gloo copies, and keeps weights gathered.
    assert [buckets("zero3", ranks) for ranks in (1, 4)] == [3 * 4e6 + 4e6, 3 * 4e6 + 1e6 + 4e6]
    assert buckets("zero3", 4, on_cuda=True) == 8e6 + 1e6 + 4e6


@pytest.mark.parametrize("sharding", DIVIDED)
def test_more_ranks_never_need_more_once_there_are_several(sharding: str) -> None:
    """From one to two, DDP begins to keep buckets."""
    total = [held(sharding, ranks, on_cuda=True) for ranks in MANY[1:]]
    assert total == sorted(total, reverse=True)
    if sharding != "ddp" and DIVIDED[sharding]:
        several = [held(sharding, ranks, parameters=1024 * 21, on_cuda=True) for ranks in MANY[1:]]
        assert several[-1] < several[0] or "offload" in sharding
        steps = itertools.pairwise(several)
        assert all(more <= fewer + 1024 for fewer, more in steps), "what is divided unevenly is rounded up"


def test_only_what_is_trained_has_gradients_states_and_buckets() -> None:
    assert held("ddp", 2, trainable=1000) == 4e6 + (12 + 4) * 1000
    assert held("ddp", 2, optimizer="adamw_8bit_torchao") == 10e6 + 4e6
