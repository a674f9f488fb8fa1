"""Which machine this is, and the folder that keeps its results apart from those of others."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.config.compose import compose
from bench.errors import UserError
from bench.machine.identity import _gpu_names, describe, identity_of, name_folder
from bench.measure import comparison
from bench.results import machines
from tests.support.configs import a_config
from tests.support.fake_nvml import B, FakeNvml

GENOA: dict[str, Any] = {
    "model": "AMD EPYC",
    "vendor": "AuthenticAMD",
    "family": 25,
    "model_number": 17,
    "stepping": 1,
    "instruction_sets": ["avx2", "avx512f"],
    "cores": 2,
}


def identity(gpus: tuple[str, ...] = (), memory_gib: float = 23.5, **cpu: Any) -> dict[str, Any]:
    return identity_of(GENOA | cpu, memory_gib, gpus)


def test_a_folder_says_vendor_family_model_and_cores() -> None:
    assert name_folder(identity())[:-5] == "amd-family25-model17-2-cores"
    assert name_folder(identity(cores=1))[:-5] == "amd-family25-model17-1-core"


def test_what_a_cpu_does_not_say_is_left_out() -> None:
    unknown: dict[str, Any] = {"vendor": None, "family": None, "model_number": None}
    assert name_folder(identity(**unknown, model="Apple M2 / Pro"))[:-5] == "apple-m2-pro-2-cores"
    assert name_folder(identity(**unknown, model=None))[:-5] == "cpu-2-cores"


def test_gpus_come_first_with_their_number() -> None:
    name = name_folder(identity(("NVIDIA H100", "NVIDIA H100", "Tesla T4"), cores=64))
    assert name[:-5] == "3-h100-t4-64-cores"


@pytest.mark.parametrize(
    "other",
    [
        {"stepping": 2},
        {"instruction_sets": ["avx2"]},
        {"cores": 4},
        {"memory_gib": 64.0},
        {"model_number": 1},
        {"gpus": ("NVIDIA H100",)},
        {"model": "AMD EPYC 9B14"},
    ],
)
def test_another_identity_has_another_folder(other: dict[str, Any]) -> None:
    assert name_folder(identity(**other)) != name_folder(identity())


def test_memory_that_a_kernel_keeps_for_itself_makes_no_other_machine() -> None:
    assert name_folder(identity(memory_gib=23.6)) == name_folder(identity(memory_gib=24.2))


def test_people_read_what_is_certain() -> None:
    assert describe(identity(), "zen4") == (
        "AMD EPYC (family 25, model 17, stepping 1), instruction sets of zen4 or newer, 2 cores, 24 GiB"
    )
    unknown = identity(family=None, model_number=None, stepping=None, cores=1)
    assert describe(unknown, None) == "AMD EPYC (family and model not recorded), 1 core, 24 GiB"
    assert describe(identity(("T4", "T4")), None).startswith("2 × T4, AMD EPYC")


def test_this_machine_s_folder_is_always_the_same_and_says_whose_it_is(tmp_path: Path) -> None:
    assert name_folder() == name_folder()
    machines.keep_identity(tmp_path / name_folder())
    written = (tmp_path / name_folder() / "machine.json").read_text(encoding="utf-8")
    machines.keep_identity(tmp_path / name_folder())
    assert (tmp_path / name_folder() / "machine.json").read_text(encoding="utf-8") == written
    assert machines.name_machine(tmp_path / name_folder()) == json.loads(written)["name"]
    assert machines.list_machines(tmp_path) == [tmp_path / name_folder()]


def test_two_machines_lie_side_by_side_without_any_option(monkeypatch: pytest.MonkeyPatch) -> None:
    here = compose(["device=cpu"])
    monkeypatch.setattr("bench.machine.identity.identify", lambda: identity(cores=96))
    there = compose(["device=cpu"])
    assert here.results_dir == f"results/{here.machine}/bench"
    assert there.machine[:-12] == "amd-family25-model17-96-cores"
    assert there.results_dir == f"results/{there.machine}/bench"


@pytest.mark.parametrize(
    ("folder", "says"), [("results/mine/bench", True), ("results/mine/other", False), ("elsewhere", False)]
)
def test_a_comparison_says_whose_folder_it_is_in(
    folder: str, says: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Exception):
        pass

    def stop(*_: object, **__: object) -> None:
        raise Stopped

    monkeypatch.setattr(comparison, "Comparison", stop)
    config = replace(a_config(tmp_path), results_dir=str(tmp_path / folder))
    with pytest.raises(Stopped):
        comparison.measure_comparison(config, "m-cpux2")
    assert (tmp_path / "results" / "mine" / "machine.json").exists() is says
    assert not (tmp_path / "machine.json").exists()


def test_a_lost_gpu_that_is_left_out_leaves_the_others_to_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = FakeNvml()
    nvml.lost = {B}
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    _gpu_names.cache_clear()
    assert _gpu_names() == ("NVIDIA H200", "Tesla T4")
    _gpu_names.cache_clear()


def test_a_folder_is_never_shared_by_two_machines(tmp_path: Path) -> None:
    machines.write_identity(tmp_path / "mine", identity(), "zen4")
    with pytest.raises(UserError, match=r"mine holds the results of another machine: AMD EPYC .*machine=…"):
        machines.keep_identity(tmp_path / "mine")


def test_a_damaged_file_of_a_machine_is_named(tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text("{}")
    with pytest.raises(UserError, match=r"machine\.json cannot be read"):
        machines.name_machine(tmp_path)


def test_a_study_is_found_on_every_machine_that_made_it(tmp_path: Path) -> None:
    for name in ("b", "a"):
        machines.write_identity(tmp_path / name, identity(), None)
    (tmp_path / "a" / "methods").mkdir()
    (tmp_path / "predicted").mkdir()
    assert machines.list_machines(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert machines.list_study(tmp_path, "methods") == [tmp_path / "a" / "methods"]
