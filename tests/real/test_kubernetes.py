"""What a pod of the Kubernetes example runs, with a stand-in for make, and what make takes from the image."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.manifests import Manifests
from tests.support.pages import ROOT, text_of

pytestmark = [pytest.mark.exhaustive, pytest.mark.once]

STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" >"$(dirname "$0")/words"
"""


def words_of_make(folder: Path, **variables: str) -> list[str]:
    """What `make` gets where a container's command runs with these variables."""
    make = folder / "make"
    make.write_text(STAND_IN, encoding="utf-8")
    make.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    subprocess.run(Manifests.read().command, env={"PATH": path, **variables}, check=True)
    return (folder / "words").read_text(encoding="utf-8").splitlines()


def test_pod_0_measures(tmp_path: Path) -> None:
    *others, overrides = words_of_make(tmp_path, JOB_COMPLETION_INDEX="0")
    assert others == ["bench", "MODEL=bert-large"]
    assert overrides.split() == [
        *("ARGS=device=cuda", "device.nnodes=2", "device.world_size=16"),
        *("device.rdzv_endpoint=training-backend-bench-0:29400", "device.rdzv_timeout_s=1800"),
    ]


@pytest.mark.parametrize("index", ["1", "10"])
def test_every_other_pod_serves_it(index: str, tmp_path: Path) -> None:
    assert words_of_make(tmp_path, JOB_COMPLETION_INDEX=index) == [
        "node",
        "COORDINATOR=training-backend-bench-0.training-backend-bench:29400",
        "ARGS=--once --wait 1800",
    ]


def test_a_pod_without_a_number_fails(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        words_of_make(tmp_path)
    assert not (tmp_path / "words").exists()


@pytest.mark.parametrize("stack", ["ort", "modern"])
def test_make_takes_the_stack_of_the_image_unless_another_is_typed(stack: str) -> None:
    (flags,) = re.findall(r'^ENV MAKEFLAGS="(.+)"$', text_of("containers/Dockerfile"), re.MULTILINE)
    variables = {**os.environ, "MAKEFLAGS": flags.replace("${STACK}", stack)}
    command = ["make", "--dry-run", "--no-print-directory", "doctor"]
    for typed, taken in (([], stack), (["STACK=ort"], "ort"), (["STACK=modern"], "modern")):
        shown = subprocess.check_output([*command, *typed], cwd=ROOT, env=variables, text=True)
        assert shown.endswith(f"-m bench.plugins.doctor --stack {taken}\n")
