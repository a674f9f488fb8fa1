"""What is computed of one block."""

from bench.config.schema import global_batch
from bench.results import arithmetic


def test_global_batch_is_the_product_over_accumulation_and_ranks() -> None:
    assert global_batch(micro_batch=4, grad_accum=3, world_size=8) == 96


def test_throughput_counts_the_samples_of_all_steps_over_the_time_of_all_steps() -> None:
    assert arithmetic.samples_per_s(steps=10, global_batch=16, seconds=2.0) == 80.0


def test_a_block_takes_as_long_as_its_slowest_rank() -> None:
    assert arithmetic.block_seconds((1.9, 2.5, 2.0)) == 2.5
