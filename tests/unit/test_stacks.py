"""Which stack this is, what another one has, and that each backend's ranks run on their own."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.launch.spec import WorkerSpec
from bench.machine import environment
from bench.measure.comparison import Comparison
from bench.measure.launches import timed
from bench.setup import stacks
from bench.setup.stacks import Installed
from tests.support.configs import a_config
from tests.support.fakes import FakeGroup

TODAYS = Installed("/todays/python", Path("/todays"), "3.13.1", {"torch": "2.13.0", "transformers": "5.23.0"})


@pytest.mark.parametrize(
    ("packages", "stack"),
    [
        ({"torch": "2.6.0", "onnxruntime-training-cpu": "1.19.2"}, "ort"),
        ({"torch": "2.6.0+cu118"}, "ort"),
        ({"torch": "2.11.0+cu130"}, "modern"),
        ({"torch": "2.13.0"}, "modern"),
        ({}, "ort"),
    ],
)
def test_a_stack_is_known_by_its_torch(
    packages: dict[str, str], stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "installed_here", lambda: Installed("", Path(), "3.11.7", packages))
    assert stacks.own() == stack


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


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process's stack, and an invented modern one."""
    original = stacks.installed
    monkeypatch.setattr(
        stacks, "installed", lambda stack=None: TODAYS if stack == "elsewhere" else original(stack)
    )


@pytest.mark.usefixtures("both")
def test_each_backend_runs_on_its_own_stack_and_its_rows_say_so(tmp_path: Path) -> None:
    started: dict[str, dict[str, Any]] = {}

    def start(spec: WorkerSpec, **given: Any) -> FakeGroup:
        started[spec.backend] = given
        return FakeGroup({}, spec, given["world_size"], given["folder"])

    made = a_config(tmp_path)
    todays = replace(made.backends["pytorch"])
    todays.stack = "elsewhere"
    made.backends = {"pytorch": made.backends["pytorch"], "todays": todays}
    comparison = Comparison(made, "m-cpux2", start_group=start)  # type: ignore[arg-type]
    for name in made.backends:
        comparison.starter.start(name, timed(1))
    assert started["pytorch"]["interpreter"] == sys.executable
    assert started["todays"]["interpreter"] == "/todays/python"
    assert started["todays"]["variables"]["PATH"].startswith("/todays/bin:")
    assert started["pytorch"]["variables"]["PATH"].startswith(f"{sys.prefix}/bin:")
    found = {name: record.environment for name, record in comparison.plan.records.items()}
    assert found["todays"]["packages"] == TODAYS.packages
    assert found["todays"]["python"] == "3.13.1"
    different = {line.split(":")[0].split(".")[0] for line in environment.find_differences(*found.values())}
    assert different == {"stack", "python", "packages"}
