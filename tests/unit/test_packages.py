"""What a process has imported, and its size on disk."""

import sys
from pathlib import Path

import msgspec
import pytest

from bench.machine import packages
from bench.machine.packages import imported_packages, size_on_disk


def test_packages_are_folders_that_lie_directly_among_the_installed_ones() -> None:
    folder = Path(msgspec.__file__).parent
    found = imported_packages()
    assert str(folder) in found
    assert all(Path(one).parent.name in packages.INSTALLED for one in found)
    assert str(folder / "_core") not in found


def test_a_module_of_one_file_and_one_that_is_no_package_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages"
    (installed / "whole" / "deep").mkdir(parents=True)
    for file in ("alone.py", "whole/__init__.py", "whole/deep/__init__.py", "never.py"):
        (installed / file).write_text("x = 1\n")
    (tmp_path / "mine.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(installed), str(tmp_path)])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    __import__("alone")
    __import__("whole.deep")
    __import__("mine")
    assert imported_packages() == [str(installed / "alone.py"), str(installed / "whole")]


def test_a_library_counts_that_is_only_mapped_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages"
    (installed / "numpy.libs").mkdir(parents=True)
    maps = tmp_path / "maps"
    maps.write_text(
        f"7f00-7f01 r-xp 00000000 08:01 42    {installed}/numpy.libs/libblas.so\n"
        "7f02-7f03 rw-p 0 00:00 0 [heap]\n"
    )
    monkeypatch.setattr(sys, "path", [str(installed)])
    monkeypatch.setattr(packages, "_MAPS", maps)
    assert imported_packages() == [str(installed / "numpy.libs")]


def test_size_is_that_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "whole" / "deep").mkdir(parents=True)
    (tmp_path / "whole" / "one").write_bytes(bytes(10))
    (tmp_path / "whole" / "deep" / "other").write_bytes(bytes(5))
    (tmp_path / "alone.py").write_bytes(bytes(2))
    paths = [str(tmp_path / name) for name in ("whole", "alone.py", "gone")]
    assert size_on_disk(paths) == 17
