"""Rules of language and size that the code's text follows."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.pages import ROOT

pytestmark = pytest.mark.once

MODULES = sorted((ROOT / "bench").rglob("*.py"))
TEXTS = [
    *MODULES,
    *sorted((ROOT / "bench").rglob("*.md")),
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "conf").rglob("*.yaml")),
]
RIDDLE = re.compile(r"(?:Of|As|That|Likewise|The same|Such as)\b")
"""Beginnings of a docstring that can only be read together with something else."""

LONGEST_MODULE = 350
FILES_WITHOUT_README = 10
LONGEST_README = 20


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def docstrings(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and text of every docstring: of modules, classes, functions and, below them, of attributes."""
    for node in ast.walk(module):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        documents = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for before, statement in zip([None, *body], body, strict=False):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                is_first = before is None and documents
                if isinstance(text, str) and (is_first or isinstance(before, ast.Assign | ast.AnnAssign)):
                    yield statement.lineno, text.strip()


def riddles(module: ast.Module) -> list[str]:
    """Docstrings that do not say by themselves what a thing is or does."""
    return [f"{line}: {text.splitlines()[0]}" for line, text in docstrings(module) if RIDDLE.match(text)]


def too_long(text: str, longest: int) -> list[str]:
    """One complaint, or none."""
    lines = len(text.splitlines())
    return [f"{lines} lines, {longest} at most"] if lines > longest else []


def readme_faults(folder: Path) -> list[str]:
    """What is wrong with a package's README.md, which only a small package needs not have."""
    readme = folder / "README.md"
    if readme.exists():
        return too_long(readme.read_text(encoding="utf-8"), LONGEST_README)
    files = len(list(folder.glob("*.py")))
    return [f"{files} Python files and no README.md"] if files > FILES_WITHOUT_README else []


MODULE = re.compile(r"\bbench\.(\w+)((?:\.[a-z_]\w*)+)")
FILE = re.compile(r"\bbench/[\w/]+\.\w+")


def missing_names(text: str) -> list[str]:
    """Modules and files of `bench` that a text names and that are not there."""
    missing = [path for path in FILE.findall(text) if not (ROOT / path).exists()]
    for package, rest in MODULE.findall(text):
        parts = [package, *rest[1:].split(".")]
        if (ROOT / "bench" / package).is_dir() and not _leads_somewhere(ROOT / "bench", parts):
            missing.append(f"bench.{'.'.join(parts)}")
    return missing


def _leads_somewhere(folder: Path, parts: list[str]) -> bool:
    """Whether these are packages, then a module, then a name in it."""
    first, *others = parts
    if (folder / first).is_dir():
        return not others or _leads_somewhere(folder / first, others)
    module = folder / f"{first}.py"
    names = others if module.exists() else parts
    text = (module if module.exists() else folder / "__init__.py").read_text(encoding="utf-8")
    return not names or re.search(rf"\b{names[0]}\b", text) is not None


def in_files(found: Iterable[tuple[Path, list[str]]]) -> list[str]:
    """Complaints, each behind the file that it is about."""
    return [f"{path.relative_to(ROOT)}:{complaint}" for path, complaints in found for complaint in complaints]


def test_every_docstring_says_by_itself_what_a_thing_is() -> None:
    assert in_files((path, riddles(parsed(path))) for path in MODULES) == []


def test_what_the_code_s_text_names_is_there() -> None:
    texts = [path for path in TEXTS if path.suffix in (".py", ".yaml")]
    assert in_files((path, missing_names(path.read_text(encoding="utf-8"))) for path in texts) == []


def test_no_module_is_too_long_to_be_read_at_once() -> None:
    assert in_files((path, too_long(path.read_text("utf-8"), LONGEST_MODULE)) for path in MODULES) == []


def test_large_packages_have_a_short_readme() -> None:
    folders = sorted({path.parent for path in MODULES})
    assert in_files((folder, readme_faults(folder)) for folder in folders) == []
