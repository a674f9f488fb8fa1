"""The doctor's real command, on this machine and on broken ones."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.config.compose import compose
from bench.plugins.doctor.probe import LOAD_TORCH, ask_torch
from bench.setup import recipes, stacks
from bench.setup.choice import choice_file
from tests.support.fake_programs import write_nvidia_smi, write_program
from tests.support.setting_up import VERSION

ROOT = Path(__file__).resolve().parents[2]
TORCH = {"python": "3.11.7", "torch": "2.6.0+cu124", "cuda_build": "12.4", "cuda": True}
TORCH |= {"cudnn": 90100, "nccl": "2.21.5", "capability": [9, 0], "kernels": ["sm_80", "sm_90"]}


def copy_code(folder: Path) -> Path:
    """Make a checkout without an environment; a Python with nothing installed."""
    for part in ("bench", "requirements"):
        shutil.copytree(ROOT / part, folder / part)
    return Path(sys.base_prefix, "bin", f"python{VERSION}")


def doctor_here(path: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.plugins.doctor"],
        cwd=ROOT,
        env={"PATH": path, "COLUMNS": "1000", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_this_machine_would_run_the_default_comparison() -> None:
    well = doctor_here("/usr/local/bin:/usr/bin:/bin")
    assert well.returncode == 0, well.stdout + well.stderr
    line = next(line for line in well.stdout.splitlines() if line.startswith("backends"))
    runs = set(line.partition("would run: ")[2].split(", "))
    assert set(compose([]).backends) <= runs
    # On a CPU torch 2.6 has no FSDP2, and what its Inductor compiles diverges (tests/real/test_choices.py).
    assert {"pytorch_fsdp2", "compile"} & runs == (
        set() if stacks.own() == "ort" else {"pytorch_fsdp2", "compile"}
    )
    assert f"stack {stacks.own()}" in well.stdout


@pytest.mark.once
def test_of_a_broken_machine_the_doctor_says_what_is_broken_and_how_to_repair_it(tmp_path: Path) -> None:
    """Without a compiler, and with a driver whose libraries are of another version than its module."""
    driver = tmp_path / "libnvidia-ml.so.1"
    code = "int nvmlInit_v2(void) { return 18; } int nvmlInitWithFlags(unsigned f) { return 18; }"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(driver)]
    subprocess.run(command, input=code, text=True, check=True)
    broken = doctor_here(str(tmp_path), LD_LIBRARY_PATH=str(tmp_path))
    assert broken.returncode == 1
    found = broken.stdout.splitlines()
    for what, detail, remedy in (
        ("programs ", "missing: git, make, g++", "→ install as root"),
        ("NVIDIA driver ", "The NVIDIA driver does not answer", "→ repair it, or choose device=cpu."),
    ):
        place, line = next(item for item in enumerate(found) if item[1].startswith(what))
        assert "broken" in line
        assert detail in line
        assert found[place + 1].strip().startswith(remedy)
    assert " broken, " in broken.stdout
    assert " 0 broken, " not in broken.stdout
    assert found[-1].startswith("next:  make doctor")


def test_a_checkout_in_which_nothing_is_set_up_is_examined_without_setting_it_up(tmp_path: Path) -> None:
    """By whatever Python there is, with nothing installed; then after a set-up that broke off."""
    python = copy_code(tmp_path)
    shutil.copy(ROOT / "Makefile", tmp_path)
    command = ["make", "doctor", f"PYTHON={python}", f"STACK={stacks.own()}"]

    def examined(status: int) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return " ".join(done.stdout.split())

    assert f"stack {stacks.own()} poor not set up yet → run `make setup" in examined(0)
    known = recipes.STACKS[stacks.own()]
    env = tmp_path / known.folder
    env.mkdir()
    choice = {"python": str(python), "version": f"{VERSION}.0", "device": "cpu"}
    choice_file(env).write_text(json.dumps(choice))
    assert f"stack {stacks.own()} broken not set up: venv, packages, " in examined(2)
    assert not (env / "bin").exists()


def test_a_torch_that_cannot_be_imported_is_reported_by_its_last_line(tmp_path: Path) -> None:
    python = str(tmp_path / "python")
    write_program(tmp_path, "python", "echo 'Traceback' >&2; echo 'OSError: libcudart.so.11.0' >&2; exit 1")
    assert ask_torch(python) == (None, "OSError: libcudart.so.11.0")
    write_program(tmp_path, "python", f"echo noise; echo '{json.dumps(TORCH)}'")
    assert ask_torch(python) == (TORCH, "")


def test_without_a_gpu_the_libraries_of_torch_are_loaded_and_where_they_cannot_be_torch_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = stacks.installed_here().packages["torch"]
    seen, error = ask_torch(sys.executable, LOAD_TORCH)
    assert (seen and seen["torch"].startswith(version.partition("+")[0]), error) == (True, "")
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/lib/libtorch_python.so").write_text("no library")
    (tmp_path / "torch/__init__.py").write_text("raise ImportError('no libgomp.so.1')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ask_torch(sys.executable, LOAD_TORCH) == (None, "ImportError: no libgomp.so.1")


def test_gpus_are_seen_before_anything_is_installed(tmp_path: Path) -> None:
    """By a Python without pynvml, in a checkout without environments."""
    python = copy_code(tmp_path)
    write_nvidia_smi(tmp_path / "bin", "NVIDIA H100 9.0", "NVIDIA H100 9.0", driver="535.1.1")
    done = subprocess.run(
        [python, "-S", "-m", "bench.plugins.doctor", "--stack", "ort"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {line.split("  ")[0]: " ".join(line.split()) for line in done.stdout.splitlines()}
    assert found["GPU 1"] == "GPU 1 ok NVIDIA H100, 79 of 80 GiB free", done.stdout + done.stderr
    assert found["NVIDIA driver"] == "NVIDIA driver ok 535.1.1"
    assert "CUDA 13.0 needs 580.65.06" in found["stack modern"]
