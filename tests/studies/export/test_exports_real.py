"""Trained models are exported for real: equal training leaves equal models, and a wrong one is seen."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.setup.checkout import ROOT
from bench.studies.export import stage
from bench.studies.export.stage import judge
from bench.studies.export.table import TABLE as EXPORTS
from tests.studies.export.comparisons import check_trained, exported

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("forked"), pytest.mark.ort]

TRAINED = ("pytorch", "ortmodule_zero1")  # by DDP under ORTModule: tests/real/test_own_module.py


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one comparison with a model whose head shares its weights with the embeddings."""
    made = tmp_path_factory.mktemp("exports")
    exported("bert-large", made, *TRAINED, "pytorch_zero3")
    return made


def test_equal_training_leaves_equal_models(folder: Path) -> None:
    table = EXPORTS.read(EXPORTS.path_of(folder / "m-cpu.csv")).set_index("backend")
    check_trained(table.loc[[*TRAINED]])


def test_weights_that_no_rank_has_whole_are_unsupported_and_the_others_go_on(folder: Path) -> None:
    table = EXPORTS.read(EXPORTS.path_of(folder / "m-cpu.csv")).set_index("backend")
    assert table.loc["pytorch_zero3", "status"] == "unsupported"
    assert "leaves no rank the whole weights" in table.loc["pytorch_zero3", "message"]


def test_models_that_ran_on_other_inputs_are_not_compared(folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    from bench.studies.export.checking import have_equal_inputs

    (models,) = (folder / "runs").glob("m-cpu/*/export")
    assert have_equal_inputs(models / "ortmodule_zero1", models / "pytorch")
    path = models / "ortmodule_zero1" / "tensors.safetensors"
    whole = path.read_bytes()
    tensors = load_file(path)
    name = next(one for one in tensors if one.endswith("input_ids"))
    save_file(tensors | {name: tensors[name] + 1}, path)
    assert not have_equal_inputs(models / "ortmodule_zero1", models / "pytorch")
    path.write_bytes(whole)


def test_where_they_run_torch_is_not(tmp_path: Path) -> None:
    """Nor a process that torch starts: it would take the cores of what is timed."""
    command = [sys.executable, "-X", "importtime", "-m", stage.CHECKER, str(tmp_path), "1", "pytorch"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "onnxruntime" in imported
    assert not {"torch._C", "deepspeed"} & imported


def test_an_encoder_decoder_gets_the_words_that_its_labels_would_be_made_into(tmp_path: Path) -> None:
    check_trained(exported("t5-large", tmp_path, "pytorch", "ortmodule"))


@pytest.mark.parametrize(
    "own",
    [
        ("own_gpt.py:OwnGPT", "+model.config.width=32", "+model.config.layers=2", "seq_len=16"),
        ("own_convnet.py:ConvNet", "+model.config.width=8", "grad_accum=2"),
    ],
)
def test_a_model_of_one_file_is_exported_too(own: tuple[str, ...], tmp_path: Path) -> None:
    module, *settings = own
    words = [f"model.module={ROOT}/docs/examples/{module}", *settings]
    check_trained(exported("own", tmp_path, "pytorch", "ortmodule", *words))


def test_a_model_that_is_not_the_trained_one_is_diverged(folder: Path) -> None:
    import onnx
    from onnx import numpy_helper

    from bench.studies.export.checking import check

    (models,) = (folder / "runs").glob("m-cpu/*/export")
    path = models / "pytorch" / "model.onnx"
    whole = path.read_bytes()
    try:
        model = onnx.load(path)
        weight = max(model.graph.initializer, key=lambda one: int(np.prod(one.dims)))
        changed = 1.01 * numpy_helper.to_array(weight).astype(np.float32)
        weight.CopyFrom(numpy_helper.from_array(changed, weight.name))
        onnx.save(model, path)
        assert judge(check(models, 1, "pytorch", ["pytorch"])["pytorch"])[0] == "diverged"
        path.write_bytes(whole[:1000])
        assert judge(check(models, 1, "pytorch", ["pytorch"])["pytorch"])[0] == "crashed"
    finally:
        path.write_bytes(whole)
