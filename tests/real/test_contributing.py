"""CONTRIBUTING, followed to the letter in a copy of the repository: what is new is accepted and trains."""

import csv
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.results import csv_files
from tests.support.pages import ROOT, commands, files_shown
from tests.support.python import run_python

pytestmark = [pytest.mark.exhaustive, pytest.mark.once]

NEW = "aot_eager"
NEW_MODEL = "bert-smaller"

FOLDERS = ("bench", "conf", "containers", "docs", "reports", "requirements", "results", "tests")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the files that the page shows, and a new model."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    for file in ROOT.iterdir():
        if file.suffix in (".md", ".cff", ".toml") or file.name in ("LICENSE", "Makefile"):
            shutil.copy(file, copy)
    for path, content in files_shown("CONTRIBUTING.md").items():
        assert not (copy / path).exists()
        (copy / path).write_text(content, encoding="utf-8")
    nearest = (copy / "conf" / "model" / "bert-tiny.yaml").read_text(encoding="utf-8")
    assert "name: bert-tiny\n" in nearest
    (copy / "conf" / "model" / f"{NEW_MODEL}.yaml").write_text(
        nearest.replace("name: bert-tiny\n", f"name: {NEW_MODEL}\n"), encoding="utf-8"
    )
    for words in (["init"], ["add", "."]):
        subprocess.run(["git", *words], cwd=copy, check=True, capture_output=True)
    return copy


def test_an_engine_is_one_module_and_one_yaml() -> None:
    assert list(files_shown("CONTRIBUTING.md")) == [
        f"bench/worker/engines/{NEW}.py",
        f"conf/backend/{NEW}.yaml",
    ]


def test_the_engine_of_the_page_trains_like_pytorch(checkout: Path, tmp_path: Path) -> None:
    (command,) = [one for one in commands("CONTRIBUTING.md") if NEW in one.line]
    small = ["device.world_size=1", "measure.parity_steps=3"]
    places = [f"results_dir={tmp_path / 'results'}", f"reports_dir={tmp_path / 'reports'}"]
    ran = run_python(*command.words[1:], *small, *places, cwd=checkout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (table,) = csv_files.list_files(tmp_path / "results")
    with table.open(encoding="utf-8") as file:
        rows = {row["backend"]: row for row in csv.DictReader(file)}
    assert (rows[NEW]["engine"], rows[NEW]["status"]) == (NEW, "untimed")


def test_its_misspelt_name_is_answered_with_the_new_engine_among_the_others(checkout: Path) -> None:
    ran = run_python("-m", "bench", "backend=[pytorch]", "backends.pytorch.engine=aot", cwd=checkout)
    assert ran.returncode == 2
    assert f"choose one of: {NEW}, compile, eager, ortmodule." in ran.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["tests/unit/test_docs.py", "-m", "not slow"],
        ["tests/unit/test_config.py", "-k", f"{NEW} or {NEW_MODEL}"],
    ],
    ids=["docs", "config"],
)
def test_no_other_file_has_to_name_them(words: Sequence[str], checkout: Path) -> None:
    ran = run_python("-m", "pytest", "-q", *words, cwd=checkout)
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout
