"""What the number of parameters says of memory, and what is left of a measured peak."""

from typing import Any

import pytest

from bench.results.prediction import Predicted, predict
from bench.statistics.backend_blocks import MemoryParts
from bench.statistics.summary import summarise
from tests.support.factories import MIB, block, record
from tests.support.result_files import table_of_records


def test_without_sharding_every_rank_holds_16_bytes_a_parameter() -> None:
    found = predict(
        parameters=1000, trainable=1000, optimizer="adamw", sharding="ddp", world_size=4, device="cpu"
    )
    assert found == Predicted(weights=4000, gradients=4000, optimizer=8000)


def test_zero_1_divides_the_states_and_copies_the_rank_s_part_of_the_weights() -> None:
    found = predict(
        parameters=1000, trainable=1000, optimizer="adamw", sharding="zero1", world_size=4, device="cpu"
    )
    assert found == Predicted(weights=5000, gradients=4000, optimizer=2000)


def test_deepspeed_s_own_modes_hold_16_bits_and_an_fp32_copy_of_the_rank_s_part() -> None:
    found = predict(
        parameters=1000,
        trainable=1000,
        optimizer="adamw",
        sharding="zero1_native",
        world_size=4,
        device="cuda",
    )
    assert found == Predicted(weights=2000 + 1000, gradients=2000, optimizer=2000)


def test_a_share_that_does_not_come_out_even_is_rounded_up() -> None:
    assert (
        predict(
            parameters=10, trainable=10, optimizer="adamw", sharding="zero1", world_size=4, device="cpu"
        ).optimizer
        == 8 * 3
    )


def test_frozen_parameters_have_neither_gradients_nor_states() -> None:
    found = predict(
        parameters=1000, trainable=10, optimizer="adamw", sharding="ddp", world_size=1, device="cpu"
    )
    assert found == Predicted(weights=4000, gradients=40, optimizer=80)


@pytest.mark.parametrize(("sharding", "on_the_device"), [("zero2_offload", 4000), ("zero3_offload", 0)])
def test_what_is_offloaded_is_not_on_the_gpu(sharding: str, on_the_device: int) -> None:
    found = predict(
        parameters=1000, trainable=1000, optimizer="adamw", sharding=sharding, world_size=4, device="cuda"
    )
    assert found == Predicted(weights=on_the_device, gradients=0, optimizer=0)


def test_on_a_cpu_offloading_moves_nothing() -> None:
    """The device is the host, so that the parts are those of the stage."""
    sizes: dict[str, Any] = {
        "parameters": 1000,
        "trainable": 1000,
        "world_size": 4,
        "device": "cpu",
        "optimizer": "adamw",
    }
    for stage in ("zero2", "zero3"):
        assert predict(**sizes, sharding=f"{stage}_offload") == predict(**sizes, sharding=stage)


def parts(peak_mib: int, **changes: Any) -> MemoryParts | None:
    predicted = Predicted(weights=50 * MIB, gradients=40 * MIB, optimizer=80 * MIB)
    figures: dict[str, Any] = {
        "predicted": predicted,
        "host_runtime_bytes": (20 * MIB, 30 * MIB),
        "blocks": (block(host_peak_bytes=(100 * MIB, peak_mib * MIB)),),
    }
    rows = table_of_records([record(**figures | changes)])
    return summarise(rows)[0].memory_parts


def test_the_parts_of_a_peak_add_up_to_it() -> None:
    found = parts(300)
    assert found == MemoryParts(runtime=30, weights=50, gradients=40, optimizer=80, rest=100)


def test_without_pages_of_files_the_runtime_is_without_them_too() -> None:
    training = block(host_peak_bytes=(1, 400 * MIB), host_anonymous_peak_bytes=(1, 300 * MIB))
    found = parts(400, blocks=(training,), host_runtime_anonymous_bytes=(1, 20 * MIB))
    assert found == MemoryParts(runtime=20, weights=50, gradients=40, optimizer=80, rest=110)


@pytest.mark.parametrize(
    "changes",
    [{"predicted": None}, {"host_runtime_bytes": ()}, {"blocks": (block(host_peak_bytes=(1, None)),)}],
)
def test_an_unknown_peak_or_model_has_no_parts(changes: dict[str, Any]) -> None:
    assert parts(300, **changes) is None


def test_a_peak_below_what_is_predicted_is_not_divided() -> None:
    assert parts(190) is None
