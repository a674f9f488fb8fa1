"""What a process has imported, and how much room that takes on disk."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

INSTALLED = ("site-packages", "dist-packages")  # what folders are called in which packages are installed

_MAPS = Path("/proc/self/maps")


def imported_packages() -> list[str]:
    """Folders and files, directly in a folder of installed packages, of which this process uses something.

    Modules that were imported, and libraries that are mapped into memory (Linux).
    """
    roots = [f"{os.path.realpath(path)}/" for path in sys.path if Path(path).name in INSTALLED]
    # Some of what lies in `sys.modules` is no module, or says nothing.
    files = [getattr(module, "__dict__", {}).get("__file__") for module in [*sys.modules.values()]]
    used = {os.path.realpath(file) for file in files if isinstance(file, str)}
    with suppress(OSError):
        used |= {f"/{path}" for line in _MAPS.read_text().splitlines() if (path := line.partition("/")[2])}
    return sorted(
        {
            root + file.removeprefix(root).partition("/")[0]
            for root in roots
            for file in used
            if file.startswith(root)
        }
    )


def size_on_disk(paths: Iterable[str]) -> int:
    """Bytes of all files in these folders, and of these files; what is not there counts nothing."""
    return sum(_size(path) for path in paths)


@cache
def _size(path: str) -> int:
    there = Path(path)
    if not there.is_dir():
        return there.stat().st_size if there.exists() else 0
    return sum(file.lstat().st_size for file in there.rglob("*") if not file.is_dir())
