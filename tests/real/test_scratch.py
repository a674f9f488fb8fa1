"""Temporary folders that are removed even when their owner was killed."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bench.launch.scratch import Scratch
from bench.setup.checkout import ROOT

pytestmark = pytest.mark.once

OWNER = (
    "import time; from bench.launch.scratch import Scratch; print(Scratch().path, flush=True); time.sleep(60)"
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_is_there_until_it_is_removed_and_those_of_others_stay(temporary: Path) -> None:
    (temporary / "bench-of-somebody").mkdir()
    scratch = Scratch()
    (scratch.path / "file").write_text("x")
    assert scratch.path.parent == temporary
    scratch.remove()
    scratch.remove()
    assert [path.name for path in temporary.iterdir()] == ["bench-of-somebody"]


def test_a_killed_owner_s_folder_is_removed_by_the_next_and_a_living_one_s_is_not(temporary: Path) -> None:
    mine = Scratch()
    owner = subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    theirs = Path(owner.stdout.readline().strip())
    Scratch().remove()
    assert theirs.exists()
    owner.kill()
    owner.wait()
    Scratch().remove()
    assert not theirs.exists()
    assert mine.path.exists()
    mine.remove()
