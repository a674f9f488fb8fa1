"""Which stack this is, what another one has, and that each backend's ranks run on their own."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.launch.spec import WorkerSpec
from bench.machine import environment
from bench.measure.comparison import Comparison
from bench.measure.plan.plans import timed
from bench.setup import stacks
from bench.setup.checkout import ROOT
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


@pytest.mark.parametrize(
    ("stack", "packages", "others"),
    [
        ("ort", {"torch": "2.6.0+cu124", "numpy": "2.2.6", "onnxruntime-training": "1.19.2"}, []),
        ("ort", {"torch": "2.7.0"}, ["torch 2.7.0 instead of 2.6.0"]),
        (
            *("ort", {"transformers": "4.50.1", "deepspeed": "0.17.0"}),
            ["transformers 4.50.1 instead of 4.49.0", "deepspeed 0.17.0 instead of 0.16.9"],
        ),
        ("modern", {"torch": "2.13.0+cpu", "onnxruntime": "1.23.0"}, []),
    ],
)
def test_other_versions_than_the_pinned_ones_are_named(
    stack: str, packages: dict[str, str], others: list[str]
) -> None:
    assert stacks.find_other_versions(stack, packages) == others


def test_any_of_the_versions_pinned_for_several_pythons_will_do() -> None:
    pinned = re.findall(r"^numpy==(\S+)", (ROOT / "requirements/modern.txt").read_text(), re.MULTILINE)
    assert len(pinned) == 2
    assert [stacks.find_other_versions("modern", {"numpy": version}) for version in pinned] == [[], []]
    other = f"numpy 1.26.4 instead of {' or '.join(pinned)}"
    assert stacks.find_other_versions("modern", {"numpy": "1.26.4"}) == [other]


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
        comparison.shared.starter.start(name, timed(1))
    assert started["pytorch"]["interpreter"] == sys.executable
    assert started["todays"]["interpreter"] == "/todays/python"
    assert started["todays"]["variables"]["PATH"].startswith("/todays/bin:")
    assert started["pytorch"]["variables"]["PATH"].startswith(f"{sys.prefix}/bin:")
    found = {name: record.environment for name, record in comparison.shared.plan.records.items()}
    assert found["todays"]["packages"] == TODAYS.packages
    assert found["todays"]["python"] == "3.13.1"
    different = {line.split(":")[0].split(".")[0] for line in environment.find_differences(*found.values())}
    assert different == {"stack", "python", "packages"}
