"""What a set-up compiles is taken from a cache that outlives checkouts, where the same would come of it."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.setup.checkout import ROOT

pytestmark = [pytest.mark.exhaustive, pytest.mark.once]

SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
LIBRARY = "lib/python*/site-packages/part/fast*.so"
SAYS = "lib/python*/site-packages/part/says.py"

# The real compiler makes a real module, of a package that says what is compiled in it.
COMPILE = f"""
echo run >> runs
cat > fast.c <<'C'
#include <Python.h>
static PyModuleDef d = {{PyModuleDef_HEAD_INIT, "fast"}};
PyMODINIT_FUNC PyInit_fast(void) {{ return PyModule_Create(&d); }}
C
[ -e broken ] || gcc -shared -fPIC -I{sysconfig.get_path("include")} fast.c -o .venv/{SITE}/part/fast.so
rm .venv/{SITE}/part/says.py
echo fast > .venv/{SITE}/part/says.py
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache; whoever runs the tests may have switched it off."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("UV_NO_CACHE", raising=False)
    monkeypatch.setenv("CXX", "g++")
    return tmp_path / "cache" / "training-backend-bench" / "compiled"


@pytest.fixture
def checkout(tmp_path: Path) -> Callable[[str], Path]:
    """Make a checkout with an environment of the smallest packages, linked out of a cache of packages."""
    packages = tmp_path / "packages"
    for name in ("torch", "setuptools", "part"):
        metadata = packages / f"{name}-1.dist-info"
        metadata.mkdir(parents=True)
        (packages / name).mkdir()
        (packages / name / "__init__.py").touch()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (metadata / "RECORD").write_text(
            f"{name}/__init__.py,sha256=of-{name},0\n../../../bin/{name},sha256=x,1\n"
        )
    (packages / "part" / "says.py").write_text("nothing\n")

    def make(name: str) -> Path:
        folder = tmp_path / name
        environment = folder / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        shutil.copytree(packages, environment / SITE, dirs_exist_ok=True, copy_function=os.link)
        for part in ("bench", "requirements"):
            (folder / part).symlink_to(ROOT / part)
        return folder

    return make


def compile_in(folder: Path, *more: str) -> tuple[int, str]:
    """Return how often the compiler has run in this checkout, and what was printed."""
    module = (folder / ".venv" / "bin" / "python", "-m", "bench.setup.inside.compiled")
    needs = ("--made", LIBRARY, SAYS, "--packages", "part", "torch", "setuptools")
    done = subprocess.run(
        [*module, *needs, "--", "sh", "-ec", COMPILE, *more],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / ".venv" / SITE / "part/says.py").read_text() == "fast\n"
    runs = folder / "runs"
    return len(runs.read_text().split()) if runs.exists() else 0, done.stdout + done.stderr


def test_a_second_checkout_takes_what_the_first_has_compiled(
    checkout: Callable[[str], Path], tmp_path: Path
) -> None:
    first, second = checkout("first"), checkout("second")
    assert compile_in(first)[0] == 1
    assert compile_in(first)[0] == 1
    # As the packages' own installer would leave it after it was compiled.
    with (second / ".venv" / SITE / "part-1.dist-info/RECORD").open("a") as record:
        record.write(
            "part/fast.so,sha256=new,1\npart/says.py,sha256=new,1\npart-1.dist-info/INSTALLER,sha256=uv,2\n"
        )
    assert compile_in(second)[0] == 0
    libraries = [folder / ".venv" / SITE / "part/fast.so" for folder in (first, second)]
    assert libraries[0].read_bytes() == libraries[1].read_bytes()
    assert (tmp_path / "packages/part/says.py").read_text() == "nothing\n", "written through a link"


A_COMPILER = "printf '#!/bin/sh\\n%s\\n' '{}' > g++; chmod +x g++"
NATIVE = 'exec g++ $(echo "$@" | sed s/native/x86-64-v2/)'
OTHER_NVCC = f"""
rm requirements
cp -r {ROOT}/requirements .
echo nvidia-cuda-nvcc==99 > requirements/nvcc.txt
"""


@pytest.mark.parametrize(
    ("variables", "script"),
    [
        ({}, f"sed -i s/of-torch/of-another-build/ .venv/{SITE}/torch-1.dist-info/RECORD"),
        ({"CFLAGS": "-O1"}, ""),
        ({"TORCH_CUDA_ARCH_LIST": "9.0"}, ""),
        ({"CXX": "./g++"}, A_COMPILER.format("echo g++ 99 >&2")),
        ({"CXX": "./g++"}, A_COMPILER.format(NATIVE)),  # of a processor that it sees by itself if asked to
        ({}, OTHER_NVCC),
    ],
)
def test_it_is_compiled_again_where_something_else_would_come_of_it(
    checkout: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], script: str
) -> None:
    compile_in(checkout("first"))
    second = checkout("second")
    subprocess.run(["sh", "-ec", script], cwd=second, check=True)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("./", f"{second}/"))
    assert compile_in(second)[0] == 1


def test_another_command_is_compiled_again_and_what_says_nothing_about_the_result_changes_nothing(
    checkout: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_in(checkout("first"))
    assert compile_in(checkout("second"), "another option")[0] == 1
    for name in ("MAKEFLAGS", "PATH", "TMPDIR", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, os.environ.get(name, "") + ":/tmp")
    assert compile_in(checkout("another folder"))[0] == 0


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("spoil", [lambda content: content[:-1], flip, lambda _: b"PK of somebody else"])
def test_a_broken_file_is_compiled_anew_and_replaced(
    checkout: Callable[[str], Path], cache: Path, spoil: Callable[[bytes], bytes]
) -> None:
    compile_in(checkout("first"))
    [cached] = cache.iterdir()
    cached.write_bytes(spoil(cached.read_bytes()))
    runs, printed = compile_in(checkout("second"))
    assert runs == 1
    assert f"not taken from the cache: {cached} is broken" in printed
    assert compile_in(checkout("third"))[0] == 0


def test_a_whole_file_whose_library_does_not_load_is_compiled_anew(
    checkout: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    """Made by a program that takes a file of another system for a library."""
    keep = (
        "import sys; from pathlib import Path; from bench.setup.inside.compiled import keep; "
        f"Path(sys.prefix, '{SITE}/part/fast.so').write_text('not of this system'); "
        f"keep(Path(sys.argv[1]), ['{LIBRARY}'])"
    )
    compile_in(checkout("first"))
    [cached] = cache.iterdir()
    second = checkout("second")
    subprocess.run([second / ".venv/bin/python", "-c", keep, cached], cwd=second, check=True)
    runs, printed = compile_in(second)
    assert runs == 1
    assert "invalid ELF header" in printed or "file too short" in printed
    assert compile_in(checkout("third"))[0] == 0


def test_what_does_not_load_is_not_kept(checkout: Callable[[str], Path], cache: Path) -> None:
    folder = checkout("first")
    (folder / "broken").touch()
    with pytest.raises(AssertionError, match=r"there is not one .*fast\*\.so"):
        compile_in(folder)
    assert not cache.exists()


@pytest.mark.parametrize("name", ["UV_NO_CACHE", "XDG_CACHE_HOME"])
def test_without_a_cache_it_is_compiled(
    checkout: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Switched off, or in a folder that nobody can write to."""
    compile_in(checkout("first"))
    monkeypatch.setenv(name, "/dev/null/1" if name == "XDG_CACHE_HOME" else "1")
    for _ in range(2):
        runs, printed = compile_in(checkout(f"{name}{_}"))
        assert runs == 1
    assert ("not put into the cache" in printed) == (name == "XDG_CACHE_HOME")


def test_two_at_once_do_not_damage_each_other(checkout: Callable[[str], Path], cache: Path) -> None:
    folders = [checkout(name) for name in ("first", "second", "third")]
    children = []
    for folder in folders:
        if (child := os.fork()) == 0:
            os._exit(0 if compile_in(folder) else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert len(list(cache.iterdir())) == 1
    assert compile_in(checkout("fourth"))[0] == 0
