"""Rules that the tests themselves follow."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def imported(text: str) -> set[str]:
    """Every module that a text names in an import, as `a.b` and, of `from a import b`, both."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def of_tests(names: set[str]) -> set[str]:
    """Those of them that are test modules: what several tests need lies in tests/support."""
    return {name for name in names if name.split(".")[:2] in (["tests", "unit"], ["tests", "real"])}


def test_no_module_imports_a_test_module() -> None:
    found = {path: of_tests(imported(path.read_text(encoding="utf-8"))) for path in TESTS.rglob("*.py")}
    assert len(found) > 100
    assert {path: names for path, names in found.items() if names} == {}
