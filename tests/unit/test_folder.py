"""The folder that keeps one machine's results apart from those of others."""

import pytest

from bench.machine import folder
from bench.machine.folder import name_folder
from bench.machine.gpus import Gpu


def describe(monkeypatch: pytest.MonkeyPatch, cores: int, **cpu: object) -> None:
    monkeypatch.setattr(folder, "available_cores", lambda: cores)
    monkeypatch.setattr(folder, "describe_processor", lambda: cpu)


def test_a_cpu_is_named_with_family_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    describe(monkeypatch, 2, model="AMD EPYC", family=26, model_number=2)
    assert name_folder("cpu") == "2-cores-amd-epyc-family26-model2"


def test_what_a_cpu_does_not_say_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    describe(monkeypatch, 4, model="Apple M2 / Pro", family=None)
    assert name_folder("cpu") == "4-cores-apple-m2-pro"
    describe(monkeypatch, 4, model=None)
    assert name_folder("cpu") == "4-cores-cpu"


def test_gpus_are_named_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [
        Gpu(
            index=index,
            uuid=f"GPU-{index}",
            name=name,
            memory_total_bytes=1,
            driver="1",
            capability=(9, 0),
            near_cores=(),
        )
        for index, name in enumerate(("NVIDIA H100", "NVIDIA H100", "Tesla T4"))
    ]
    monkeypatch.setattr(folder, "visible_gpus", lambda: gpus)
    assert name_folder("cuda") == "3-h100-t4"
