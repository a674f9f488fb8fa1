"""What MKL says of itself, and that device.blas=full really makes it take another path."""

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.errors import LaunchFailed
from bench.machine.processor import find_why_full_is_refused
from bench.machine.variables import worker_variables
from bench.measure.plan.resolve import environment_settings
from bench.setup.checkout import ROOT
from bench.setup.install import complete
from bench.setup.recipes import MKL_LIBRARY, MKL_MACHINE, blas_stages
from bench.worker.rank import mkl_path
from tests.support.configs import a_config

PROVE = "import json; from bench.worker.rank import mkl_path; print(json.dumps(mkl_path.proof('full')))"


MULTIPLY = "import torch; square = torch.ones(64, 64); square @ square"


def said_by_verbose_mkl(variables: dict[str, str]) -> str:
    """What MKL prints of a product, without the build's date, which stands in the middle."""
    verbose = {**variables, "MKL_VERBOSE": "1"}
    said = subprocess.run([sys.executable, "-c", MULTIPLY], env=verbose, capture_output=True, text=True)
    return re.sub(" Product build [0-9]+", "", said.stdout)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A folder with nothing but the library in it, as set-up builds it."""
    if reason := find_why_full_is_refused():
        pytest.skip(reason)
    (tmp_path / MKL_LIBRARY).parent.mkdir()
    [stage] = blas_stages(ROOT, tmp_path)
    with (tmp_path / "lock").open("w") as lock:
        complete((stage,), ROOT, tmp_path, lock.fileno())
    return tmp_path


def test_with_the_library_preloaded_mkl_takes_its_full_path_and_the_proof_says_so(environment: Path) -> None:
    config = a_config(environment)
    config.device.blas = "full"
    variables = worker_variables(os.environ, **environment_settings(config), prefix=environment)
    done = subprocess.run([sys.executable, "-c", PROVE], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    proof: dict[str, Any] = json.loads(done.stdout)  # what MKL printed is not among it
    assert proof["setting"] == "full"
    assert proof["preloaded"]
    assert mkl_path.HOLDS_BACK not in proof["path"]
    assert proof["path"] != mkl_path.path_of_mkl()
    assert proof["path"] in said_by_verbose_mkl(variables)


@pytest.mark.skipif(platform.machine() != MKL_MACHINE, reason="MKL exists for x86-64 only")
def test_mkl_names_its_version_and_its_path_once_asked() -> None:
    proof = mkl_path.proof("stock")
    assert "oneMKL" in proof["path"]
    assert proof["path"] == mkl_path.proof("stock")["path"]
    assert not proof["preloaded"]
    assert proof["path"] in said_by_verbose_mkl(dict(os.environ))


@pytest.mark.parametrize(
    ("path", "preloaded", "problem"),
    [
        (None, True, "this torch does not multiply with MKL"),
        ("oneMKL (Intel(R) AVX-512) enabled processors", False, "has not preloaded libmkl_full_path.so"),
        ("oneMKL Intel(R) Architecture processors", True, "MKL still takes the path of"),
    ],
)
def test_each_way_to_miss_the_full_path_is_told(path: str | None, preloaded: bool, problem: str) -> None:
    with pytest.raises(LaunchFailed, match=problem) as caught:
        mkl_path.check_full(path, preloaded=preloaded)
    assert caught.value.status == "fallback"
    with pytest.raises(LaunchFailed, match=r"device\.blas=full has no effect"):
        mkl_path.proof("full")  # here nothing is preloaded
