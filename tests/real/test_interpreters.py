"""What another interpreter says of the packages that are installed for it."""

import sys
from pathlib import Path

import pytest

from bench.setup import stacks

pytestmark = pytest.mark.once


def test_an_interpreter_tells_what_is_installed_for_it() -> None:
    asked, here = stacks._installed_at(Path(sys.executable)), stacks.installed_here()
    assert asked is not None
    assert (asked.python, asked.prefix, asked.packages) == (here.python, here.prefix, here.packages)


def test_of_a_package_that_is_there_twice_the_first_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, version in (("first", "1.0"), ("second", "2.0")):
        info = tmp_path / folder / f"twice-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: twice\nVersion: {version}\n")
    (tmp_path / "second" / "left-1.0.dist-info").mkdir()
    both = [str(tmp_path / folder) for folder in ("first", "second")]
    monkeypatch.setenv("PYTHONPATH", ":".join(both))
    monkeypatch.setattr(sys, "path", [*both, *sys.path])
    asked = stacks._installed_at.__wrapped__(Path(sys.executable))
    assert asked is not None
    here = stacks.installed_here.__wrapped__()
    assert asked.packages["twice"] == here.packages["twice"] == "1.0"
    assert None not in here.packages


@pytest.mark.parametrize("script", [None, "exit 1", "echo no JSON"])
def test_one_that_does_not_answer_is_not_there(script: str | None, tmp_path: Path) -> None:
    python = tmp_path / "python"
    if script:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    assert stacks._installed_at(python) is None
