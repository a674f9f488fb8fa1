"""`model.module`: the user's file is found without running it, and the code that is trained is hashed."""

import hashlib
import importlib.util
import os
from collections.abc import Iterable
from importlib.machinery import PathFinder
from modulefinder import ModuleFinder
from pathlib import Path

from bench.errors import UserError


def find_file(module: str) -> Path:
    """Return the file of `path/to/file.py:Name` or `package.module:Name`, or refuse another; imports nothing.

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
    """Return SHA-256 sums of the user's code, by the files' paths from the one that is named.

    These are, of a file, itself and what it imports from its own folder and from the directory where the
    command was typed; of a package, all its Python files. Refuses as `find_file`, and what is not Python.
    """
    file = find_file(module)
    place = module.rpartition(":")[0]
    if names_file(place):
        files = _imported_files(file)
    elif "." in place:
        folder = file.parents[place.count(".") - (file.name != "__init__.py")]
        files = folder.rglob("*.py")
    else:
        files = [file] if file.name != "__init__.py" else file.parent.rglob("*.py")
    return {
        os.path.relpath(path, file.parent): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted({path.absolute() for path in files})
    }


def _imported_files(file: Path) -> Iterable[Path]:
    finder = ModuleFinder(path=[str(file.absolute().parent), str(Path.cwd())])
    try:
        finder.run_script(str(file))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not valid Python: {error}", "correct it there") from None
    found = (getattr(module, "__file__", None) for module in finder.modules.values())
    return [file, *map(Path, filter(None, found))]
