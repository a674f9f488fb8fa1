"""Models exported by today's torch, which follows torch.export, run in ONNX Runtime of the other stack."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.studies.export.stage import find_interpreter
from tests.studies.export.comparisons import check_trained, exported

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(find_spec("onnxscript") is None, reason="about today's torch"),
]


@pytest.mark.skipif(find_interpreter() is None, reason="no stack has ONNX Runtime: make setup")
@pytest.mark.parametrize("model", ["bert-large", pytest.param("t5-large", marks=pytest.mark.exhaustive)])
def test_a_model_exported_today_gives_what_pytorch_gives(model: str, tmp_path: Path) -> None:
    table = exported(model, tmp_path, "pytorch")
    check_trained(table)
    assert "opset 18" in str(table.loc["pytorch", "exporter"])
