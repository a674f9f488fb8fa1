"""What is in the fingerprint, and what is not."""

import dataclasses
from pathlib import Path

import pytest
from configs import a_config

from bench import environment
from bench.config import Device


def test_the_same_machine_has_the_same_fingerprint(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    assert environment.digest(environment.collect(config)) == environment.digest(environment.collect(config))


def test_versions_hardware_code_and_variables_are_in_it(tmp_path: Path) -> None:
    found = environment.collect(a_config(tmp_path))
    assert found["packages"]["torch"]
    assert found["cpu"]["cores"] >= 1
    assert len(found["code"]) == 16
    assert found["variables"]["OMP_NUM_THREADS"] == "1"
    assert found["variables"]["ORTMODULE_FALLBACK_POLICY"] == "FALLBACK_DISABLE"


def test_where_the_checkout_lies_is_not_in_it(tmp_path: Path) -> None:
    found = environment.collect(a_config(tmp_path))
    assert str(environment.ROOT) not in str(found)
    assert str(Path.home()) not in str(found["variables"])


@pytest.mark.parametrize(
    ("name", "value", "recorded"),
    [
        ("NCCL_P2P_DISABLE", "1", "1"),
        ("CUDA_MODULE_LOADING", "LAZY", "LAZY"),
        ("LD_PRELOAD", "/somewhere/libjemalloc.so", None),
    ],
)
def test_inherited_variables_that_matter_are_recorded_a_path_only_as_a_hash(
    tmp_path: Path, name: str, value: str, recorded: str | None
) -> None:
    found = environment.variables({name: value, "EDITOR": "vi"}, a_config(tmp_path))
    assert found[name] == (recorded or f"sha256:{environment.digest(value)}")
    assert "EDITOR" not in found


def test_another_setting_of_the_workers_is_another_fingerprint(tmp_path: Path) -> None:
    tuned = a_config(tmp_path)
    system = dataclasses.replace(
        tuned, device=Device(type="cpu", world_size=2, threads=1, allocator="system")
    )
    one, other = environment.collect(tuned), environment.collect(system)
    assert environment.digest(one) != environment.digest(other)
    assert "variables.MALLOC_ARENA_MAX: 1, now missing" in environment.differences(one, other)


def test_differences_name_nested_entries_and_what_is_missing() -> None:
    one = {"packages": {"torch": "2.6.0"}, "gpus": [{"name": "a"}], "same": 1}
    other = {"packages": {"torch": "2.7.0", "onnx": "1"}, "gpus": [], "same": 1}
    assert environment.differences(one, other) == [
        "gpus.0.name: a, now missing",
        "packages.onnx: missing, now 1",
        "packages.torch: 2.6.0, now 2.7.0",
    ]
    assert environment.differences(one, one) == []
