"""The C++ sources of an extension as one: bench/setup/inside/united/sitecustomize.py."""

import json
import subprocess
from pathlib import Path

import pytest

from bench.setup.checkout import ROOT
from bench.setup.recipes import UNITED
from tests.support.python import run_python

pytestmark = pytest.mark.once

ASK = (
    "import json, setuptools, sys; print(json.dumps(setuptools.Extension(*json.loads(sys.argv[1])).sources))"
)


def sources_of(name: str, *given: str, cwd: Path) -> list[str]:
    """What an extension with these sources is compiled of, in a set-up's stage."""
    variables = {"PYTHONPATH": str(ROOT / UNITED)}
    done = run_python("-c", ASK, json.dumps([name, given]), variables=variables, cwd=cwd, check=True)
    return list(json.loads(done.stdout))


def test_sources_of_c_plus_plus_become_one_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    united = sources_of("ops.some", "there/a.cc", "kernel.cu", "there/b.cpp", cwd=tmp_path)
    assert united == ["there/united.cpp", "kernel.cu"]
    assert (tmp_path / united[0]).read_text().split() == ["#include", '"a.cc"', "#include", '"b.cpp"']
    assert sources_of("ops.some", "there/a.cc", "kernel.cu", cwd=tmp_path) == ["there/a.cc", "kernel.cu"]


def test_static_variables_of_one_name_stay_two(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("static int world_size = 3; int of_a() { return world_size; }\n")
    (tmp_path / "b.cpp").write_text(
        "static int world_size = 40;\nint of_a();\nint main() { return of_a() + world_size; }\n"
    )
    [united] = sources_of("ops.deepspeed_shm_comm_op", "a.cpp", "b.cpp", cwd=tmp_path)
    subprocess.run(["g++", united, "-o", "both"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "both"], check=False).returncode == 43
