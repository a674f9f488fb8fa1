"""CONTRIBUTING, followed to the letter in a copy of the repository: a new engine is accepted and trains."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT, commands, files_shown

pytestmark = [pytest.mark.once, pytest.mark.timeout(240)]

NEW = "aot_eager"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the harness runs from, with the files that the page shows."""
    for folder in ("bench", "conf"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path, content in files_shown("CONTRIBUTING.md").items():
        assert not (tmp_path / path).exists()
        (tmp_path / path).write_text(content, encoding="utf-8")
    return tmp_path


def test_an_engine_is_one_module_and_one_yaml() -> None:
    assert list(files_shown("CONTRIBUTING.md")) == [
        f"bench/worker/engines/{NEW}.py",
        f"conf/backend/{NEW}.yaml",
    ]


def test_the_engine_of_the_page_trains_like_pytorch(checkout: Path) -> None:
    (command,) = [one for one in commands("CONTRIBUTING.md") if NEW in one.line]
    small = ["device.world_size=1", "measure.parity_steps=2"]
    ran = subprocess.run(
        [sys.executable, *command.words[1:], *small],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (table,) = (checkout / "results").glob("*.csv")
    with table.open(encoding="utf-8") as file:
        rows = {row["backend"]: row for row in csv.DictReader(file)}
    assert (rows[NEW]["engine"], rows[NEW]["status"]) == (NEW, "untimed")


def test_its_misspelt_name_is_answered_with_the_new_engine_among_the_others(checkout: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "backend=[pytorch]", "backends.pytorch.engine=aot"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert f"choose one of: {NEW}, compile, eager, ortmodule." in ran.stderr
