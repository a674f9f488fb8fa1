"""A study is its folder: without it everything else runs as before."""

import ast
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.setup.checkout import ROOT
from bench.study import FOLDER, find_studies, load_part
from tests.support.git import copy_committed, git
from tests.support.python import run_python

pytestmark = pytest.mark.once

TINY = (
    *("model=bert-tiny", "model.size=mini", "seq_len=8", "micro_batch=1", "measure=quick"),
    *("device=cpu", "device.world_size=1", "device.threads=1"),
)
SHORT = ("launches=1", "rounds=1", "block_seconds=0.05", "preheat_s=0", "wait_s=0")

SLOW = ("flops", "counting", "products", "step_profile")  # import torch

SIMULATED = "kept or closed"  # two of the tests that run a comparison on pretended groups

ALIKE = (
    *("test_docs", "test_config", "test_naming", "test_overrides", "test_compare_machines"),
    *("test_coverage", "test_steadiness"),
)
"""Unit tests that are left out without any study: of docs, and of what no study takes part in."""


def dependents(study: str) -> set[str]:
    """The study and all that import it, which cannot stay without it."""
    there = {study}
    for path in sorted(FOLDER.rglob("*.py")):
        imported = [
            node.module
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom)
        ]
        if any(name and name.startswith(f"bench.studies.{study}") for name in imported):
            there.add(path.relative_to(FOLDER).parts[0])
    return there


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository; a single one, so that Python compiles each module once."""
    copy = tmp_path_factory.mktemp("copy") / "whole"
    copy_committed(copy, ".")
    git("-C", str(copy), "init", "-q")
    git("-C", str(copy), "add", ".")
    return copy


Run = Callable[[Sequence[str], Sequence[str]], str]
"""Runs pytest with words, and then imports modules; what was printed. Both must succeed."""


@pytest.fixture(scope="module")
def run_there(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Forks of one process in the copy, which has imported nothing of it."""
    output = tmp_path_factory.mktemp("printed") / "output"
    program = [sys.executable, "-m", "tests.studies.import_all"]
    with subprocess.Popen(
        program, cwd=copy, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin
        assert process.stdout
        orders, answers = process.stdin, process.stdout

        def run(words: Sequence[str], modules: Sequence[str]) -> str:
            output.unlink(missing_ok=True)
            orders.write(json.dumps({"words": words, "modules": modules, "output": str(output)}) + "\n")
            status, printed = answers.readline(), output.read_text(encoding="utf-8")
            assert status == "0\n", (words, printed[-6000:])
            return printed

        yield run


@contextmanager
def deleted(studies: Iterable[str], copy: Path, tmp_path: Path) -> Iterator[None]:
    """The copy without these studies and their tests, which come back."""
    places = [Path(part, "studies", study) for study in studies for part in ("bench", "tests")]
    try:
        for place in places:
            (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
            (copy / place).rename(tmp_path / place)
        yield
    finally:
        for place in places:
            if (tmp_path / place).exists():
                (tmp_path / place).rename(copy / place)


def run(copy: Path, *words: str) -> str:
    """What a Python program prints there; it must succeed."""
    done = run_python("-m", *words, cwd=copy)
    assert done.returncode == 0, (words, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def modules(copy: Path, folder: str, *skipped: str) -> list[str]:
    """What a coordinator may import of a folder, without modules whose names end in a skipped word."""
    paths = [path.relative_to(copy).with_suffix("") for path in sorted((copy / folder).rglob("*.py"))]
    names = [".".join(path.parts) for path in paths if not {"worker", "inside"} & {*path.parts}]
    return [name for name in names if not name.endswith(("__main__", "bare_loop", "ranks", *skipped))]


@pytest.mark.parametrize("study", find_studies())
def test_without_a_study_simulated_comparisons_run_imports_hold_and_what_is_its_own_is_refused(
    study: str, copy: Path, run_there: Run, tmp_path: Path
) -> None:
    with deleted(dependents(study), copy, tmp_path):
        run(copy, "ruff", "check", "bench", "tests")
        # What stands below the studies imports none of them, and is imported without any below.
        imported = modules(copy, "bench/studies", *SLOW)
        words = ("-q", "-p", "no:cacheprovider", "-k", SIMULATED, "tests/unit/test_comparison.py")
        assert " passed" in run_there(words, imported)
        if settings := load_part(study, "settings"):
            key = next(field.name for field in dataclasses.fields(settings.Settings))
            refused = run_python("-m", "bench", f"measure.{key}=null", cwd=copy)
            assert (refused.returncode, f"measure.{key}" in refused.stderr) == (2, True)


def test_without_any_study_a_comparison_runs_the_core_s_unit_tests_pass_and_the_imports_are_allowed(
    copy: Path, run_there: Run, tmp_path: Path
) -> None:
    with deleted(find_studies(), copy, tmp_path):
        places = (f"results_dir={tmp_path}/results", f"reports_dir={tmp_path}/reports")
        assert "one workload, several backends" in run(copy, "bench", "--help")
        command = ("tests.support.on_any_machine", "--forked", "bench", "backend=[pytorch,pytorch_fused]")
        run(copy, *command, *TINY, *(f"measure.{each}" for each in SHORT), *places)
        assert (tmp_path / "reports" / "speedup.svg").exists()
        run_there([], modules(copy, "bench"))
        subprocess.run([Path(sys.executable).with_name("lint-imports")], cwd=copy, check=True)
        left_out = [f"--ignore=tests/unit/{name}.py" for name in ALIKE]
        words = ("-q", "-p", "no:cacheprovider", "tests/unit", "-m", "not slow and not gpu and not time")
        assert " passed" in run_there([*words, *left_out], [])


def test_the_table_in_docs_lists_every_study() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name, study in find_studies().items():
        assert f"| `bench/studies/{name}/` | {study.answers} | `{study.command}` |" in page
