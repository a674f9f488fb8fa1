"""Weights and code from elsewhere: only safetensors are read, nothing that comes with them is run."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bench.errors import UserError
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
