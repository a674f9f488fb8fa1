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
    "import json, setuptools, sys; name, sources, options = json.loads(sys.argv[1]);"
    "made = setuptools.Extension(name, sources, extra_compile_args=options);"
    "print(json.dumps([made.sources, made.extra_compile_args]))"
)

Options = list[str] | dict[str, list[str]]


def compiled(name: str, *given: str, cwd: Path, options: Options | None = None) -> tuple[list[str], Options]:
    """Of what sources and with what options an extension of these is compiled, in a set-up's stage."""
    variables = {"PYTHONPATH": str(ROOT / UNITED)}
    ask = json.dumps([name, given, options])
    sources, used = json.loads(run_python("-c", ASK, ask, variables=variables, cwd=cwd, check=True).stdout)
    return sources, used


def sources_of(name: str, *given: str, cwd: Path) -> list[str]:
    """Of what sources an extension of these is compiled."""
    return compiled(name, *given, cwd=cwd)[0]


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


def test_no_names_for_a_debugger_are_made_and_nvcc_gets_its_options_unchanged(tmp_path: Path) -> None:
    def options(source: str, given: Options) -> Options:
        return compiled("ops.some", source, cwd=tmp_path, options=given)[1]

    assert options("a.cpp", ["-O3", "-g"]) == ["-O3", "-g", "-g0"]
    both: Options = {"cxx": ["-g", "-O2"], "nvcc": ["-g", "-O3"]}
    assert options("a.cu", both) == {"cxx": ["-g", "-O2", "-g0"], "nvcc": ["-g", "-O3"]}
    assert options("a.cu", ["-g"]) == ["-g"]
    (tmp_path / "a.cpp").write_text("int a() { return 1; }\n")
    build = "import setuptools; setuptools.setup(ext_modules=[setuptools.Extension('some', ['a.cpp'])])"
    variables = {"PYTHONPATH": str(ROOT / UNITED)}
    run_python("-c", build, "build_ext", "--inplace", variables=variables, cwd=tmp_path, check=True)
    [library] = tmp_path.glob("some*.so")
    assert b".debug_info" not in library.read_bytes()
