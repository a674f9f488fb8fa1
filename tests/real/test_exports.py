"""Trained models are exported for real: equal training leaves equal models, and a wrong one is seen."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.config.backend import Backend
from bench.config.compose import compose
from bench.measure.after_training import judge
from bench.measure.comparison import Comparison
from bench.results import exports

pytestmark = [pytest.mark.timeout(300), pytest.mark.ort]

LINE = ("model.size=mini", "device=cpu", "measure=parity", "after=export", "device.threads=1")


def exported(model: str, backends: str, folder: Path, *more: str) -> pd.DataFrame:
    made = compose([f"model={model}", f"backend=[{backends}]", f"results_dir={folder}", *LINE, *more])
    Comparison(made, "m-cpu").measure()
    return exports.read(exports.path_of(folder / "m-cpu.csv")).set_index("backend")


@pytest.mark.parametrize("model", ["bert-large", "t5-large", "vit-base"])
def test_equal_training_leaves_equal_models(model: str, tmp_path: Path) -> None:
    table = exported(model, "pytorch,ortmodule,ortmodule_zero1", tmp_path, "micro_batch=2")
    assert set(table["status"]) == {"ok"}, table["message"].tolist()
    assert (table["difference"] <= 1e-5 * table["output_scale"]).all()
    assert table.loc["pytorch", "difference_from_reference"] == 0
    # AdamW's first steps have the sign of the gradient: where that is all rounding, weights go apart.
    assert (table["difference_from_reference"] <= 1e-2 * table["output_scale"]).all()
    assert (table["exported_mib"] > 0).all()
    assert (table["inference_low_ms"] <= table["inference_ms"]).all()
    assert (table["inferences"] == 20).all()


def test_a_model_that_is_not_the_trained_one_is_diverged(tmp_path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    from bench.worker.check_exports import check

    exported("bert-mini", "pytorch", tmp_path, "device.world_size=1", "micro_batch=2")
    (folder,) = (tmp_path / "runs").glob("m-cpu/*/export")
    path = folder / "pytorch" / "model.onnx"
    model = onnx.load(path)
    weight = next(one for one in model.graph.initializer if one.name.endswith("classifier.weight"))
    weight.CopyFrom(
        numpy_helper.from_array(1.01 * numpy_helper.to_array(weight).astype(np.float32), weight.name)
    )
    onnx.save(model, path)
    found = check(folder, 1, "pytorch", ["pytorch"])
    assert judge(found["pytorch"])[0] == "diverged"
    path.write_bytes(path.read_bytes()[:1000])
    assert judge(check(folder, 1, "pytorch", ["pytorch"])["pytorch"])[0] == "crashed"


def test_weights_that_no_rank_has_whole_are_unsupported_and_the_others_go_on(tmp_path: Path) -> None:
    line = [
        "model=bert-mini",
        f"results_dir={tmp_path}",
        *LINE,
        "backend=[pytorch,pytorch_zero3]",
        "micro_batch=2",
    ]
    made = compose(line)
    zero3 = Backend(engine="eager", optimizer="adamw", sharding="zero3")
    made = replace(made, backends=made.backends | {"pytorch_zero3": zero3})
    Comparison(made, "m-cpu").measure()
    table = exports.read(exports.path_of(tmp_path / "m-cpu.csv")).set_index("backend")
    assert table.loc["pytorch", "status"] == "ok"
    assert table.loc["pytorch_zero3", "status"] == "unsupported"
    assert "leaves no rank the whole weights" in table.loc["pytorch_zero3", "message"]
