"""What a rank holds on many ranks, and how many layers that leaves room for."""

import pytest

from bench.analysis.scale.memory import Held, largest_layers, predict_memory
from bench.analysis.scale.sendings import DEEPSPEED_BUCKET
from bench.config.choices import DIVIDED

MANY = [1, 2, 3, 4, 7, 8, 16, 64, 1024]
PARAMETERS = 1_000_000


def held(
    sharding: str,
    world_sizes: list[int],
    *,
    parameters: int = PARAMETERS,
    trainable: int | None = None,
    optimizer: str = "adamw",
    activations: float = 0.0,
    device: str = "cpu",
) -> Held:
    return predict_memory(
        sharding=sharding,
        optimizer=optimizer,
        parameters=parameters,
        trainable=parameters if trainable is None else trainable,
        activations=activations,
        world_sizes=world_sizes,
        device=device,
    )


def test_a_rank_holds_sixteen_bytes_of_a_parameter_and_every_gradient_twice_if_it_sends_them() -> None:
    one = held("ddp", [1, 2, 64], activations=5e6)
    assert one.states.tolist() == [16e6] * 3
    assert one.buckets.tolist() == [0, 4e6, 4e6], "one rank alone sends nothing"
    assert one.activations.tolist() == [5e6] * 3
    assert one.total.tolist() == [21e6, 25e6, 25e6]


def test_stage_1_divides_the_states_stage_2_the_gradients_and_stage_3_the_weights() -> None:
    ranks = 8
    weights = gradients = 4e6
    # Each has the states and an fp32 copy of its part.
    divided = (8e6 + 4e6) / ranks
    assert held("zero1", [ranks]).states.tolist() == [weights + gradients + divided]
    assert held("zero2", [ranks]).states.tolist() == [weights + gradients / ranks + divided]
    assert held("zero3", [ranks]).states.tolist() == [weights / ranks + gradients / ranks + divided]
    assert held("zero_redundancy", [ranks]).states.tolist() == [weights + gradients + 8e6 / ranks]
    assert held("fsdp2", [ranks]).states.tolist() == [16e6 / ranks]


def test_deepspeed_keeps_a_bucket_and_its_part_of_the_averaged_gradients() -> None:
    assert held("zero1", [1, 4]).buckets.tolist() == [4e6 + 4e6, 4e6 + 1e6]
    large = held("zero2", [4], parameters=2 * DEEPSPEED_BUCKET)
    assert large.buckets.tolist() == [4 * (DEEPSPEED_BUCKET + DEEPSPEED_BUCKET / 2)]
    assert held("fsdp2", [4]).buckets.tolist() == [0]
    # With a stream for it, it sends one bucket while it fills another.
    assert held("zero1", [4], device="cuda").buckets.tolist() == [8e6 + 1e6]
    # Stage 3 puts tensors in order in another bucket, which gloo copies, and keeps weights gathered.
    assert held("zero3", [1, 4]).buckets.tolist() == [3 * 4e6 + 4e6, 3 * 4e6 + 1e6 + 4e6]
    assert held("zero3", [4], device="cuda").buckets.tolist() == [8e6 + 1e6 + 4e6]


@pytest.mark.parametrize("sharding", DIVIDED)
def test_more_ranks_never_need_more_once_there_are_several(sharding: str) -> None:
    """From one to two, DDP begins to keep buckets."""
    total = held(sharding, MANY[1:], activations=1e6, device="cuda").total
    assert (total[1:] <= total[:-1]).all()
    if sharding != "ddp" and DIVIDED[sharding]:
        several = held(sharding, MANY[1:], parameters=1024 * 21, device="cuda").total
        assert several[-1] < several[0] or "offload" in sharding
        assert (several[1:] <= several[:-1] + 1024).all(), "what is divided unevenly is rounded up"


def test_without_division_the_world_size_changes_nothing() -> None:
    assert len(set(held("ddp", MANY[1:]).total)) == 1


def test_only_what_is_trained_has_gradients_states_and_buckets() -> None:
    frozen = held("ddp", [2], trainable=1000)
    assert frozen.states.tolist() == [4e6 + 12 * 1000]
    assert frozen.buckets.tolist() == [4 * 1000]
    eight_bits = held("ddp", [2], optimizer="adamw_8bit_torchao")
    assert eight_bits.states.tolist() == [10e6]


@pytest.mark.parametrize(
    ("rest", "layer", "memory", "layers"),
    [
        (10, 5, 30, 4),
        (10, 5, 29.9, 3),
        (10, 5, 10, 0),  # the rest fits, and no layer
        (10, 5, 9, 0),  # not even the rest
        (10, 5, 14, 0),
        (0, 5, 0, 0),
        (10, 0.001, 1e9, 10_000),  # more make no sense
    ],
)
def test_as_many_layers_fit_as_there_is_memory_for(
    rest: float, layer: float, memory: float, layers: int
) -> None:
    assert largest_layers(lambda count: rest + count * layer, memory_bytes=memory) == layers


def test_the_most_layers_that_make_sense_may_be_given() -> None:
    assert largest_layers(lambda count: count, memory_bytes=100, most=12) == 12
    assert largest_layers(lambda count: 10 * count, memory_bytes=100, most=12) == 10


def test_what_does_not_grow_evenly_is_found_as_well() -> None:
    """As with a bucket that grows with the model up to a limit."""
    assert largest_layers(lambda count: 10 * min(count, 5) + count, memory_bytes=100) == 50
