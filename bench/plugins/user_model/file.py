"""`model.module`: the user's file is found without running it, and the code that is trained is hashed."""

import ast
import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder, all_suffixes
from pathlib import Path

from bench.config.content import hash_file
from bench.errors import UserError
from bench.machine.environment import digest
from bench.setup.surroundings import cache_folder

INSTALLED = ("site-packages", "dist-packages")  # what folders are called in which packages are installed


def find_file(module: str) -> Path:
    """Return the file of `path/to/file.py:Name` or `package.module:Name`; refuses all else; imports nothing.

    Paths and packages are found from the directory where the command was typed, and installed packages, too.
    """
    place, _, name = module.rpartition(":")
    if not place or not name.isidentifier():
        raise UserError(
            f"model.module={module} does not name a class or function in a file",
            "write path/to/file.py:Name or package.module:Name",
        )
    if names_file(place):
        if not Path(place).is_file():
            raise UserError(
                f"model.module={module}: there is no file {Path(place).absolute()}",
                "give its path from the directory where the command is typed",
            )
        return Path(place)
    top, *inner = place.split(".")
    spec = PathFinder.find_spec(top, [str(Path.cwd())]) or importlib.util.find_spec(top)
    if spec is not None and spec.origin and not inner:
        return Path(spec.origin)
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder, *inner)
        for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if file.is_file():
                return file
    raise UserError(
        f"model.module={module}: Python finds no module {place} from {Path.cwd()}",
        "give the path of its file, as in path/to/file.py:Name",
    )


def names_file(place: str) -> bool:
    """Whether what stands before the colon is a file's path, and no module's name."""
    return place.endswith(".py") or "/" in place


def hash_code(module: str) -> dict[str, str]:
    """Return SHA-256 sums of the user's code, by the files' paths relative to the named file.

    These are the file, or all Python files of its package, and what they import from its folder and from the
    directory where the command was typed. Of an installed package only its own files count. Refuses what
    `find_file` refuses, and files that are not Python.
    """
    file = find_file(module).absolute()
    place = module.rpartition(":")[0]
    depth = -1 if names_file(place) else place.count(".") - (file.name != "__init__.py")  # -1: no package
    folder, files = file.parents[depth + 1], {file}
    if depth >= 0:
        files.update(file.parents[depth].rglob("*.py"))
    if folder.name not in INSTALLED:  # where the other files are libraries, not the user's
        files = _with_imports(file, files, [folder, Path.cwd()])
    return {os.path.relpath(path, file.parent): hash_file(path) for path in sorted(files)}


def keep_bytecode_of(module: str) -> None:
    """Key Python's bytecode cache by content: by default Python compares only a file's time and size."""
    sys.pycache_prefix = f"{cache_folder()}/training-backend-bench/bytecode/{digest(hash_code(module))}"


def _with_imports(named: Path, files: set[Path], folders: list[Path]) -> set[Path]:
    """The files, and what of the folders they import, and what that imports."""
    known, ahead = set(files), [*files]
    while ahead:
        file = ahead.pop()
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError) as error:
            if file == named:  # others are compiled, or templates in a package
                raise UserError(f"{file} is not valid Python: {error}", "correct it there") from None
            continue
        new = {path for node in ast.walk(tree) for path in _imported(node, file, folders)} - known
        known |= new
        ahead += new
    return known


def _imported(node: ast.AST, file: Path, folders: list[Path]) -> Iterator[Path]:
    """The files that an import runs: modules, and the `__init__` of the packages that they lie in."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module or ''}.{alias.name}".lstrip(".") for alias in node.names]
        folders = [file.parents[node.level - 1]] if node.level else folders
    else:
        return
    for name in names:
        parts = name.split(".")
        for folder in folders:
            paths = [folder.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
            there = [
                Path(f"{path}{ending}") for path in paths for ending in ("/__init__.py", *all_suffixes())
            ]
            if there := [path for path in there if path.is_file()]:
                yield from there
                break
