"""Weights and code from elsewhere: only safetensors are read, nothing that comes with them is run."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bench.errors import LaunchFailed, UserError
from bench.worker.workload import model as models
from tests.support.configs import a_model


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A folder as transformers saves it."""
    settings = transformers.BertConfig(**a_model().config)
    transformers.BertForMaskedLM(settings).save_pretrained(tmp_path / "weights")
    return tmp_path / "weights"


def build(folder: Path, **changes: Any) -> torch.nn.Module:
    model = dataclasses.replace(a_model(), pretrained=str(folder), **changes)
    return models.build(model, attention="eager", dropout=True, pretrained=True)


def test_a_good_folder_is_read(weights: Path) -> None:
    assert models.parameter_count(build(weights)) == a_model().parameters


def test_a_pickle_is_not_read(weights: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (weights / "exploded",))  # type: ignore[return-value]

    (weights / "model.safetensors").unlink()
    torch.save({"bomb": Bomb()}, weights / "pytorch_model.bin")
    with pytest.raises(
        UserError, match=r"model.pretrained=.*weights has its weights in pytorch_model.bin, which"
    ):
        build(weights)
    assert not (weights / "exploded").exists()


def test_truncated_weights_are_named(weights: Path) -> None:
    path = weights / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"model.pretrained=.*weights \(folder\)"):
        build(weights)


def test_code_beside_the_weights_is_not_run(weights: Path) -> None:
    settings = json.loads((weights / "config.json").read_text())
    settings |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}
    (weights / "config.json").write_text(json.dumps(settings))
    (weights / "mine.py").write_text(f"open({str(weights / 'exploded')!r}, 'w')\n")
    with pytest.raises(LaunchFailed, match=r"run only with model.trust_remote_code=true"):
        build(weights, architecture=None, config={})
    assert not (weights / "exploded").exists()
