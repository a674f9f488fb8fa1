"""What `make setup` installs: versions that are pinned, in an order that works."""

import re
from pathlib import Path

import pytest

from bench.setup.checkout import ROOT
from bench.setup.choice import Choice
from bench.setup.recipes import STACKS

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("stack", "device", "name"),
    [("ort", "cpu", "ort-cpu.txt"), ("ort", "cuda", "ort-gpu.txt"), ("modern", "cpu", "modern.txt")],
)
def test_every_requirement_is_pinned_and_names_no_place(stack: str, device: str, name: str) -> None:
    known = STACKS[stack]
    stages = known.stages(ROOT, ROOT / known.folder, Choice("python3.11", "3.11.7", device))
    files = [path for stage in stages for path in stage.inputs if path.suffix == ".txt"]
    assert [path.name for path in files] == [name, "uv.txt"]
    for path, least in zip(files, (50, 1), strict=True):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert len(lines) >= least
        assert [line for line in lines if not re.match(r"[a-z0-9-]+==[\w.]+( |$)", line)] == []
        assert "://" not in path.read_text()


def test_comparing_installs_a_few_packages_in_the_versions_of_the_default_stack() -> None:
    stack, few = (
        [line.split("#")[0].strip() for line in (ROOT / "requirements" / name).read_text().splitlines()]
        for name in ("ort-cpu.txt", "compare.txt")
    )
    packages = [line for line in few if line]
    assert 5 < len(packages) < 20
    assert set(packages) <= set(stack)


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
    assert "--compile-bytecode" in {*torch} & {*rest}
    assert not re.search(r"^(nvidia-(?!ml-py)|cuda-|triton)", Path(rest[-1]).read_text(), re.MULTILINE)
