"""What `make setup` installs: versions that are pinned, in an order that works."""

import re
from pathlib import Path

import pytest

from bench.setup.checkout import ROOT
from bench.setup.choice import Choice
from bench.setup.recipes import SELDOM_IMPORTED, STACKS, compile_bytecode

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("stack", "device", "names"),
    [
        ("ort", "cpu", ["ort-cpu.txt", "uv.txt"]),
        ("ort", "cuda", ["ort-gpu.txt", "uv.txt", "cuda11.txt", "nvcc.txt"]),
        ("modern", "cpu", ["modern.txt", "uv.txt"]),
    ],
)
def test_every_requirement_is_pinned_and_names_no_place(stack: str, device: str, names: list[str]) -> None:
    known = STACKS[stack]
    stages = known.stages(ROOT, ROOT / known.folder, Choice("python3.11", "3.11.7", device))
    files = [path for stage in stages for path in stage.inputs if path.suffix == ".txt"]
    assert [path.name for path in files] == names
    for path, least in zip(files, (50, 1, 5, 5), strict=False):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert len(lines) >= least
        assert [line for line in lines if not re.match(r"[a-z0-9-]+==[\w.]+( |$)", line)] == []
        assert "://" not in path.read_text()


@pytest.mark.parametrize(("stack", "device"), [("ort", "cuda"), ("modern", "cpu"), ("modern", "cuda")])
def test_torch_comes_first_and_with_all_that_its_build_asks_for(stack: str, device: str) -> None:
    """The file of requirements leaves CUDA's libraries out, which differ from build to build."""
    known = STACKS[stack]
    stages = known.stages(ROOT, ROOT / known.folder, Choice("python3.11", "3.11.7", device))
    uv, torch, rest = [command for command in stages[1].commands if "install" in command]
    assert uv[-1].endswith("uv.txt")
    assert torch[-1].startswith("torch==")
    assert "--no-deps" not in torch
    assert "--no-deps" in rest
    assert stages[1].commands.index(rest) < stages[1].commands.index(
        compile_bytecode(ROOT / known.folder, ".")
    )
    assert not re.search(r"^(nvidia-(?!ml-py)|cuda-|triton)", Path(rest[-1]).read_text(), re.MULTILINE)


def test_each_library_of_cuda_11_that_onnx_runtime_loads_comes_with_a_pinned_wheel() -> None:
    """A wheel of another release brings a file of another name, or none."""
    source = (ROOT / "bench/setup/inside/ort_cuda_libraries.py").read_text()
    folders = re.findall(r'^        "([a-z_]+)/lib/lib', source, re.MULTILINE)
    assert len(folders) == 6
    pinned = dict(
        line.split()[0].split("==")
        for line in (ROOT / "requirements/cuda11.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    assert {f"nvidia-{folder.replace('_', '-')}-cu11" for folder in folders} == pinned.keys()
    # CUDA 11.8 and cuDNN 8: what the wheel of onnxruntime-training 1.19.2 names as NEEDED.
    assert pinned["nvidia-cuda-runtime-cu11"] == pinned["nvidia-cuda-nvrtc-cu11"] == "11.8.89"
    assert pinned["nvidia-cudnn-cu11"].startswith("8.9.")


def test_the_compiler_s_parts_are_of_one_release_and_its_assembler_is_of_torch_s_cuda() -> None:
    lines = (ROOT / "requirements/nvcc.txt").read_text().splitlines()
    pinned = dict(line.split()[0].split("==") for line in lines if not line.startswith("#"))
    own = {"nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt"}
    assert {pinned[name] for name in own} == {"13.0.88"}
    assert pinned.keys() - own == {"nvidia-cuda-nvcc-cu12", "nvidia-cuda-cccl-cu12"}
    assert all(pinned[name].startswith("12.4.") for name in pinned.keys() - own)


@pytest.mark.parametrize(
    ("path", "is_left_out"),
    [
        ("pandas/tests/frame/test_api.py", True),
        ("transformers/models/bert/modeling_bert.py", True),
        ("transformers/models/bert/__init__.py", False),  # of all models, imported with any
        ("transformers/models/auto/modeling_auto.py", False),
        ("torch/testing/_comparison.py", False),
        ("networkx/classes/graph.py", True),
    ],
)
def test_bytecode_is_left_out_of_what_hardly_any_comparison_imports(path: str, is_left_out: bool) -> None:
    there = f"/tests/env/lib/python3.11/site-packages/{path}"
    assert bool(re.search(SELDOM_IMPORTED, there)) == is_left_out
