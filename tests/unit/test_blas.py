"""device.blas=full: where it is refused, and what builds its library."""

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from bench.config.compose import compose
from bench.config.schema import Config
from bench.errors import UserError
from bench.machine import processor
from bench.measure.plan import preflight
from bench.setup import stacks
from bench.setup.recipes import MKL_LIBRARY
from tests.support.configs import a_config


def a_config_with(blas: str, folder: Path) -> Config:
    config = a_config(folder)
    config.device.blas = blas
    return config


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this process's environment: an empty one, on a CPU that Intel did not make."""
    here = replace(stacks.installed_here(), prefix=tmp_path / "env")
    monkeypatch.setattr(stacks, "installed_here", lambda: here)
    monkeypatch.setattr(preflight, "find_why_full_is_refused", lambda: "")
    return here.prefix


def test_on_a_gpu_the_full_path_is_refused() -> None:
    with pytest.raises(UserError, match=r"device\.blas=full is about .* on a CPU, .*; leave it out\.$"):
        compose(["device=cuda", "device.blas=full"])


@pytest.mark.parametrize(
    ("machine", "vendor", "reason"),
    [
        ("x86_64", "AuthenticAMD", ""),
        ("x86_64", "HygonGenuine", ""),
        ("x86_64", None, ""),
        ("x86_64", "GenuineIntel", "MKL takes its full path on Intel's CPUs already"),
        ("aarch64", "0x41", "MKL exists for x86_64 only, and this machine is aarch64"),
    ],
)
def test_the_full_path_changes_something_on_x86_cpus_of_other_makers(
    machine: str, vendor: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(processor, "describe_processor", lambda: {"vendor": vendor})
    assert processor.find_why_full_is_refused() == reason


def test_where_it_would_change_nothing_the_full_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "find_why_full_is_refused", lambda: "MKL is fast already")
    preflight.check_blas(a_config_with("stock", tmp_path))
    with pytest.raises(UserError) as caught:
        preflight.check_blas(a_config_with("full", tmp_path))
    assert str(caught.value) == (
        "device.blas=full would change nothing, since MKL is fast already; leave it out."
    )


def test_without_its_library_the_full_path_is_refused(tmp_path: Path, environment: Path) -> None:
    config = a_config_with("full", tmp_path)
    with pytest.raises(UserError, match=r"needs libmkl_full_path\.so, which has not .*; run `make setup"):
        preflight.check_blas(config)
    (environment / MKL_LIBRARY).parent.mkdir(parents=True)
    (environment / MKL_LIBRARY).touch()
    preflight.check_blas(config)
