"""A packed checkout is whole, and its environment starts where it was unpacked."""

import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.setup import interpreter
from bench.setup.bundle import NAME, PYTHONS, pack
from bench.setup.install import set_up
from bench.setup.recipes import venv_stage
from tests.support.setting_up import VERSION, ran, shell, stack_of

pytestmark = pytest.mark.once


def test_joined_pieces_are_the_folder_and_their_checksums_hold(tmp_path: Path) -> None:
    checkout = tmp_path / NAME
    (checkout / ".venv").mkdir(parents=True)
    (checkout / ".venv" / "noise").write_bytes(hashlib.shake_128(b"noise").digest(300_000))
    (checkout / ".venv" / "link").symlink_to("noise")
    stale = tmp_path / f"{NAME}.tar.gz.099"
    stale.write_bytes(b"of an earlier bundle")
    pieces = pack(checkout, 100_000)
    assert [piece.stat().st_size for piece in pieces][:3] == [100_000] * 3
    assert len(pieces) == 4
    assert not stale.exists()
    subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)
    whole = tmp_path / "whole.tar.gz"
    whole.write_bytes(b"".join(piece.read_bytes() for piece in pieces))
    (tmp_path / "there").mkdir()
    subprocess.run(["tar", "--extract", "--file", whole], cwd=tmp_path / "there", check=True)
    there = tmp_path / "there" / NAME / ".venv"
    assert (there / "noise").read_bytes() == (checkout / ".venv" / "noise").read_bytes()
    assert (there / "link").readlink() == Path("noise")


def test_an_environment_follows_a_python_that_was_moved_with_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No stage is done again, and what stays behind is not used."""
    here, there = tmp_path / "here", tmp_path / "there"
    python = here / PYTHONS / "bin" / f"python{VERSION}"
    python.parent.mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), python)
    for name in ("lib", "include"):
        (here / PYTHONS / name).symlink_to(Path(sys.base_prefix, name))
    monkeypatch.setattr(interpreter, "look_for_python", lambda _: (str(python), VERSION))
    stages = lambda _, env, choice: (venv_stage(env, choice), shell("packages", "true"))  # noqa: E731
    stack = replace(stack_of(), stages=stages)
    set_up(stack, here, "cpu")
    assert ran(here) == ["packages"]
    here.rename(there)
    monkeypatch.setattr(interpreter, "look_for_python", lambda _: pytest.fail("another Python is taken"))
    set_up(stack, there)
    assert ran(there) == []
    moved, code = (
        there / ".venv" / "bin" / f"python{VERSION}",
        "import sys; print(sys.prefix, sys.base_prefix)",
    )
    started = subprocess.check_output([moved, "-c", code], text=True)
    assert started.split() == [str(there / ".venv"), str(there / PYTHONS)]
