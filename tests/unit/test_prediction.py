"""What the number of parameters says of memory, and what is left of a measured peak."""

from typing import Any

import pytest

from bench.results.prediction import Predicted, predict
from bench.statistics.backend_blocks import MemoryParts
from bench.statistics.summary import summarise
from tests.support.factories import MIB, block, record
from tests.support.result_files import table_of_records


def predicted(sharding: str, device: str = "cpu", **sizes: int) -> Predicted:
    """Of 1000 parameters on four ranks, unless the sizes say otherwise."""
    given: dict[str, Any] = {"parameters": 1000, "trainable": 1000, "world_size": 4} | sizes
    return predict(**given, optimizer="adamw", sharding=sharding, device=device)


@pytest.mark.parametrize(
    ("sharding", "device", "sizes", "bytes_"),
    [
        ("ddp", "cpu", {}, (4000, 4000, 8000)),  # 16 bytes a parameter
        ("zero1", "cpu", {}, (5000, 4000, 2000)),  # a share of the states, and a copy of that of the weights
        ("zero1_native", "cuda", {}, (2000 + 1000, 2000, 2000)),  # 16 bits, and an fp32 copy of its part
        ("zero1", "cpu", {"parameters": 10, "trainable": 10}, (52, 40, 8 * 3)),  # rounded up
        ("ddp", "cpu", {"trainable": 10, "world_size": 1}, (4000, 40, 80)),  # the others are frozen
        ("zero2_offload", "cuda", {}, (4000, 0, 0)),
        ("zero3_offload", "cuda", {}, (0, 0, 0)),
    ],
)
def test_a_rank_s_memory_follows_from_parameters_sharding_and_device(
    sharding: str, device: str, sizes: dict[str, int], bytes_: tuple[int, int, int]
) -> None:
    weights, gradients, optimizer = bytes_
    assert predicted(sharding, device, **sizes) == Predicted(
        weights=weights, gradients=gradients, optimizer=optimizer
    )


@pytest.mark.parametrize("stage", ["zero2", "zero3"])
def test_on_a_cpu_offloading_moves_nothing(stage: str) -> None:
    """The device is the host, so that the parts are those of the stage."""
    assert predicted(f"{stage}_offload") == predicted(stage)


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
