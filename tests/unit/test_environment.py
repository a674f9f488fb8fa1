"""What is in an environment and its hash, and what is not."""

import dataclasses
import os
import subprocess
from pathlib import Path
from typing import Any

import grimp
import pytest

from bench.config import identity
from bench.config.training import Precision
from bench.errors import UserError
from bench.machine import environment, source_code
from bench.machine.variables import worker_variables
from bench.measure.plan.preflight import print_removed_variables
from bench.measure.plan.resolve import collect_environment, environment_settings
from bench.setup.checkout import ROOT
from bench.setup.recipes import CUDA_HOME
from tests.support.configs import a_config


def test_versions_hardware_code_and_variables_are_in_it(tmp_path: Path) -> None:
    found = collect_environment(a_config(tmp_path))
    assert found["packages"]["torch"]
    assert found["cpu"]["cores"] >= 1
    assert len(found["code"]) == 16
    assert found["variables"]["OMP_NUM_THREADS"] == "1"
    assert found["variables"]["ORTMODULE_FALLBACK_POLICY"] == "FALLBACK_DISABLE"


def test_a_cpu_needs_no_driver_that_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise UserError("A GPU does not answer", "repair it, or choose device=cpu")

    monkeypatch.setattr(environment, "visible_gpus", fail)
    settings = environment_settings(a_config(tmp_path))
    assert environment.take(settings)["gpus"] == []
    with pytest.raises(UserError, match="A GPU does not answer"):
        environment.take({**settings, "device": "cuda"})


def test_without_git_the_commit_is_unknown_and_the_code_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = source_code.code_hash()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source_code.git_commit() == "unknown"
    assert source_code.code_hash() == code


def test_code_that_git_does_not_know_of_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    (tmp_path / "bench" / "worker" / "engines").mkdir(parents=True)
    (tmp_path / "bench" / "known.py").write_text("")
    (tmp_path / "pyproject.toml").write_text("")
    git("init")
    git("add", ".")
    git("-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-m", "known")
    monkeypatch.setattr(source_code, "ROOT", tmp_path)
    (tmp_path / "results.csv").write_text("not the harness's code")
    clean, before = source_code.git_commit(), source_code.code_hash()
    assert not clean.endswith("-dirty")
    (tmp_path / "bench" / "worker" / "engines" / "own.py").write_text("")
    assert source_code.git_commit() == f"{clean}-dirty"
    assert source_code.code_hash() != before


def test_other_weights_in_the_folder_are_another_configuration(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    without = identity.config_hash(config)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "model.safetensors").write_bytes(b"1")
    config.model.pretrained = str(tmp_path / "weights")
    first = identity.config_hash(config)
    (tmp_path / "weights" / "model.safetensors").write_bytes(b"2")
    assert len({without, first, identity.config_hash(config)}) == 3


@pytest.mark.parametrize("name", ["a/1.png", "processor.model", "rows.csv.gz", "cache-rows.csv"])
def test_a_file_of_the_same_size_and_time_with_other_content_is_another_configuration(
    tmp_path: Path, name: str
) -> None:
    config = a_config(tmp_path)
    place = tmp_path / "data" / name
    place.parent.mkdir(parents=True)
    hashes = set()
    for content in (b"1", b"2"):
        place.write_bytes(content)
        os.utime(place, (1e9, 1e9))
        for key in ("path", "processor"):
            setattr(config.data, key, str(tmp_path / "data"))
            hashes.add(identity.config_hash(config))
            setattr(config.data, key, None)
    assert len(hashes) == 4


def test_where_the_checkout_lies_is_not_in_it(tmp_path: Path) -> None:
    found = collect_environment(a_config(tmp_path))
    assert str(ROOT) not in str(found)
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
    found = variables_of(tmp_path, {name: value, "EDITOR": "vi"})
    assert found[name] == (recorded or f"sha256:{environment.digest(value)}")
    assert "EDITOR" not in found


def test_the_full_path_s_library_is_recorded_by_its_name_and_so_alike_in_every_checkout(
    tmp_path: Path,
) -> None:
    config = a_config(tmp_path)
    config.device.blas = "full"
    settings, users = environment_settings(config), "/somewhere/libjemalloc.so"
    assert environment.recorded_variables({}, settings)["LD_PRELOAD"] == "libmkl_full_path.so"
    assert environment.recorded_variables({"LD_PRELOAD": users}, settings)["LD_PRELOAD"] == (
        f"libmkl_full_path.so sha256:{environment.digest(users)}"
    )


@pytest.mark.parametrize(
    ("blas", "users", "preloaded"),
    [
        ("stock", None, None),
        ("stock", "/a/libusers.so", "/a/libusers.so"),
        ("full", None, "/env/lib/libmkl_full_path.so"),
        ("full", "/a/libusers.so", "/env/lib/libmkl_full_path.so:/a/libusers.so"),
    ],
)
def test_the_full_path_s_library_comes_before_what_the_user_preloads(
    tmp_path: Path, blas: str, users: str | None, preloaded: str | None
) -> None:
    config = a_config(tmp_path)
    config.device.blas = blas
    base = {} if users is None else {"LD_PRELOAD": users}
    made = worker_variables(base, **environment_settings(config), prefix=Path("/env"))
    assert made.get("LD_PRELOAD") == preloaded


def variables_of(folder: Path, given: dict[str, str], **changes: Any) -> dict[str, str]:
    """What is recorded of these variables with a comparison of whose settings some are changed."""
    config = a_config(folder)
    for key, value in changes.items():
        setattr(config, key, value)
    return environment.recorded_variables(given, environment_settings(config))


def on_a_gpu(tmp_path: Path, base: dict[str, str]) -> dict[str, str]:
    settings = {**environment_settings(a_config(tmp_path)), "device": "cuda"}
    return worker_variables(base, **settings, prefix=tmp_path)


def test_ranks_have_the_environment_s_compiler_before_the_machine_s(tmp_path: Path) -> None:
    base = {"CUDA_HOME": "/usr/local/cuda-11.2"}
    assert on_a_gpu(tmp_path, base)["CUDA_HOME"] == "/usr/local/cuda-11.2"  # an environment of one's own
    (tmp_path / CUDA_HOME).mkdir(parents=True)
    assert on_a_gpu(tmp_path, base)["CUDA_HOME"] == str(tmp_path / CUDA_HOME)


def test_which_of_equal_gpus_were_given_is_not_recorded(tmp_path: Path) -> None:
    """A container names the GPUs that it got by their serial numbers."""
    settings = {**environment_settings(a_config(tmp_path)), "device": "cuda"}
    some, others = (
        environment.recorded_variables(
            {"NVIDIA_VISIBLE_DEVICES": gpus, "CUDA_VISIBLE_DEVICES": gpus}, settings
        )
        for gpus in ("GPU-aa", "GPU-bb")
    )
    assert some == others


@pytest.mark.parametrize("name", ["HF_TOKEN", "NVIDIA_API_KEY", "NCCL_PASSWORD", "CUDA_SECRET_THING"])
def test_a_secret_never_gets_into_the_results(tmp_path: Path, name: str) -> None:
    assert "s3cr3t" not in str(variables_of(tmp_path, {name: "s3cr3t"}))


def test_what_the_user_has_set_but_workers_never_see_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = a_config(tmp_path)
    before = collect_environment(config)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    after = collect_environment(config)
    assert after["removed_variables"] != before["removed_variables"]
    assert environment.hash_environment(after) == environment.hash_environment(before)
    assert environment.find_differences(before, after) == []


@pytest.mark.parametrize(
    ("name", "reaches_ranks"),
    [
        ("ACCELERATE_MIXED_PRECISION", False),
        ("SM_HP_MP_PARAMETERS", False),
        ("TORCHDYNAMO_DISABLE", False),
        ("DEEPSPEED_TIMEOUT", False),
        ("ORT_DISABLE_FUSED_ATTENTION", False),
        ("HF_DATASETS_IN_MEMORY_MAX_SIZE", False),
        ("HF_HOME", True),
        ("NCCL_SOCKET_IFNAME", True),
    ],
)
def test_variables_that_change_training_are_removed_and_named(
    tmp_path: Path, name: str, reaches_ranks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = environment_settings(a_config(tmp_path))
    assert (name in worker_variables({name: "1"}, **settings)) is reaches_ranks
    print_removed_variables({name: "1", "EDITOR": "vi"})
    named = f"not passed on, since they change what is measured: {name}\n"
    assert capsys.readouterr().err == ("" if reaches_ranks else named)


def test_another_setting_of_the_workers_is_another_hash(tmp_path: Path) -> None:
    tuned = a_config(tmp_path)
    system = dataclasses.replace(tuned, device=dataclasses.replace(tuned.device, allocator="system"))
    one, other = collect_environment(tuned), collect_environment(system)
    assert environment.digest(one) != environment.digest(other)
    assert "variables.MALLOC_ARENA_MAX: 1, now missing" in environment.find_differences(one, other)


@pytest.mark.parametrize(("precision", "held"), [("fp32", "0"), ("bf16", "0"), ("tf32", None)])
def test_only_tf32_computes_in_tf32_whoever_calls_the_gpu(
    tmp_path: Path, precision: str, held: str | None
) -> None:
    found = variables_of(tmp_path, {}, precision=Precision(name=precision))
    assert found.get("NVIDIA_TF32_OVERRIDE") == held


@pytest.mark.parametrize(("checkpointing", "level"), [(True, "1"), (False, None)])
def test_checkpointing_makes_onnx_runtime_recompute(
    tmp_path: Path, checkpointing: bool, level: str | None
) -> None:
    found = variables_of(tmp_path, {"ORTMODULE_MEMORY_OPT_LEVEL": "2"}, checkpointing=checkpointing)
    assert found.get("ORTMODULE_MEMORY_OPT_LEVEL") == level


def test_differences_name_nested_entries_and_what_is_missing() -> None:
    one = {"packages": {"torch": "2.6.0"}, "gpus": [{"name": "a"}], "same": 1}
    other = {"packages": {"torch": "2.7.0", "onnx": "1"}, "gpus": [], "same": 1}
    assert environment.find_differences(one, other) == [
        "gpus.0.name: a, now missing",
        "packages.onnx: missing, now 1",
        "packages.torch: 2.6.0, now 2.7.0",
    ]
    assert environment.find_differences(one, one) == []


@pytest.mark.parametrize(
    ("file", "matters"),
    [
        ("bench/measure/comparison.py", True),
        ("bench/studies/any/ranks.py", True),
        ("conf/measure/quick.yaml", False),
        ("requirements/ort-cpu.txt", True),
        ("bench/report/table.py", False),
        ("bench/studies/one/stage.py", True),
        ("bench/studies/one/pages.py", False),
        ("README.md", False),
    ],
)
def test_the_code_s_hash_changes_with_what_decides_how_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, matters: bool
) -> None:
    for name in ("bench/measure/comparison.py", "conf/measure/quick.yaml", "requirements/ort-cpu.txt", file):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("before\n")
    monkeypatch.setattr(source_code, "ROOT", tmp_path)
    before = source_code.code_hash()
    (tmp_path / file).write_text("after\n")
    assert (source_code.code_hash() != before) is matters


def test_what_measures_imports_nothing_whose_code_is_not_hashed() -> None:
    graph = grimp.build_graph("bench", exclude_type_checking_imports=True, cache_dir=None)
    hashed = tuple(name.removesuffix(".py").replace("/", ".") for name in source_code.MEASURING)

    def measures(module: str) -> bool:
        return module in ("bench", *hashed) or module.startswith(tuple(f"{name}." for name in hashed))

    assert [
        f"{module} imports {imported}"
        for module in sorted(filter(measures, graph.modules))
        for imported in sorted(graph.find_modules_directly_imported_by(module))
        if not measures(imported)
    ] == []
