"""The command itself, with real backends and a tiny model: from the command line to CSV, table and figure."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest
import yaml  # type: ignore[import-untyped]

from bench.setup import stacks
from bench.setup.checkout import ROOT
from bench.study import find_studies
from tests.support.commands import Ran, bench
from tests.support.configs import TINY_MODEL
from tests.support.cores import two_cores

transformers = pytest.importorskip("transformers")

pytestmark = two_cores

of_limit = pytest.mark.skipif("limit" not in find_studies(), reason="the study has been taken out")


SHOWN = {"pytorch": "adamw", "pytorch_best": "adamw_fused"} | (
    {"pytorch_zero1": "adamw"}
    if stacks.own() == "modern"
    else {"ortmodule": "adamw_fused", "ortmodule_zero1": "adamw_fused"}
)
"""The stack's default backends, and the optimizer that each runs on a CPU."""


def run(folder: Path, *overrides: str, own_pages: bool = False, **variables: str) -> Ran:
    """Run `bench` on a tiny model, for a launch."""
    short = ("measure=quick", "measure.launches=1", "measure.block_seconds=0.2")
    models = f"hydra.searchpath=[file://{ROOT}/tests/conf]"
    return bench(folder, models, *short, *overrides, variables=variables, own_pages=own_pages)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    folder = tmp_path_factory.mktemp("three")
    done, rows = run(
        folder,
        *TINY_MODEL,
        "measure.rounds=3",
        "grad_accum=2",
        own_pages=True,
        # Whatever the user's shell says, ORTModule may not fall back to PyTorch, nor take more threads.
        ORTMODULE_FALLBACK_POLICY="FALLBACK_UNSUPPORTED_ONNX_MODEL",
        OMP_NUM_THREADS="7",
        MALLOC_ARENA_MAX="1",
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in SHOWN)
    return folder, rows


def test_the_stack_s_backends_leave_their_rows_whose_arithmetic_holds(
    three: tuple[Path, pd.DataFrame],
) -> None:
    _, rows = three
    assert (rows["status"] == "ok").all()
    counts = rows.groupby("backend")[["launch", "round"]].nunique()
    assert {name: tuple(counts.loc[name]) for name in SHOWN} == dict.fromkeys(SHOWN, (1, 3))
    ran = rows.groupby("backend")["optimizer"].unique()
    assert {name: list(found) for name, found in ran.items()} == {name: [one] for name, one in SHOWN.items()}
    assert (rows["global_batch"] == rows["micro_batch"] * rows["grad_accum"] * rows["world_size"]).all()
    assert (rows["global_batch"] == 16).all()
    computed = rows["steps"] * rows["global_batch"] / rows["seconds"]
    assert list(rows["samples_per_s"]) == pytest.approx(list(computed), rel=1e-9)
    budget = rows["seconds"] * rows["world_size"] * rows["threads_per_rank"]
    assert (rows["cpu_seconds"] <= 1.1 * budget).all(), "no more than its share of the cores"
    assert (rows["cpu_seconds"] > 0).all()
    assert (rows["loss_difference"] < 1e-4).all()
    assert rows["last_loss"].between(4, 8).all()  # about ln 512, the vocabulary's size


@of_limit
def test_every_row_says_how_far_it_is_from_the_device_s_limit_and_the_record_what_multiplied(
    three: tuple[Path, pd.DataFrame],
) -> None:
    folder, rows = three
    assert rows["model_flops_per_step"].nunique() == rows["limit_flops_per_s"].nunique() == 1
    assert rows["roofline_share"].between(0.001, 1).all()
    rates = rows["torch_matmul_flops_per_s"]
    assert rates.between(1e8, 1e14).all()
    assert (rates <= rows["limit_flops_per_s"]).all()
    assert rows["ort_matmul_flops_per_s"].notna().all() == ("ortmodule" in set(rows["engine"]))
    (path, *_) = sorted((folder / "results").glob("runs/*/*/launch-1/pytorch/record.json"))
    roofline = json.loads(path.read_text())["found"]["limit"]
    shapes = [one["shape"] for one in roofline["products"]]
    assert 1 <= len(shapes) <= 8
    for library in roofline["libraries"]:
        assert len(library["ranks"]) == 2
        for rank in library["ranks"]:
            assert [one["shape"] for one in rank if one["shape"] in shapes] == shapes
    assert roofline["absent"] == []


def test_peaks_and_phases_are_filled_in_and_gpu_columns_blank(three: tuple[Path, pd.DataFrame]) -> None:
    rows = three[1]
    for column in ("host_peak_mib", "setup_host_peak_mib", "setup_s", "first_step_s"):
        assert (rows[column] > 0).all(), column
    for phase in ("setup_", "first_step_", ""):
        assert rows[f"{phase}host_anonymous_peak_mib"].between(100, rows[f"{phase}host_peak_mib"] - 100).all()
    for column in ("device_peak_mib", "torch_peak_allocated_mib", "energy_j"):
        assert rows[column].isna().all(), column


@pytest.mark.ort
def test_the_user_s_fallback_policy_is_overruled_and_onnx_runtime_really_ran(
    three: tuple[Path, pd.DataFrame],
) -> None:
    folder, _ = three
    records = [json.loads(path.read_text()) for path in folder.glob("results/runs/*/*/*/*/record.json")]
    ours = [record for record in records if record["engine"] == "ortmodule"]
    assert len(ours) == 2
    for record in ours:
        assert record["proof"]["engine"]["loss_function"] == "_ORTModuleFunctionBackward"
        assert "ORTMODULE_FALLBACK_POLICY" in record["environment"]["removed_variables"]


def test_a_table_and_a_figure_are_there(three: tuple[Path, pd.DataFrame]) -> None:
    for name in ("index.md", "index.html", "speedup.svg", "memory.svg"):
        page = (three[0] / "reports" / name).read_text(encoding="utf-8")
        assert all(backend in page for backend in SHOWN), name


@pytest.mark.ort
def test_an_operator_that_ort_lacks_never_yields_a_row_that_pytorch_computed(tmp_path: Path) -> None:
    """FNet's Fourier transform cannot be exported; ORTModule would quietly run it in PyTorch."""
    done, rows = run(
        tmp_path,
        *("model=fnet-mini", "backend=[pytorch,ortmodule]", "device.world_size=1", "measure.rounds=2"),
        ORTMODULE_FALLBACK_POLICY="FALLBACK_UNSUPPORTED_ONNX_MODEL",  # the user's shell does not matter
    )
    assert done.returncode == 1
    (failed,) = rows[rows["backend"] == "ortmodule"].to_dict("records")
    assert failed["status"] == "unsupported"
    assert math.isnan(failed["samples_per_s"])
    assert "fft" in failed["message"].lower()
    assert list(rows[rows["backend"] == "pytorch"]["status"]) == ["ok", "ok"]
    assert "ortmodule, parity launch: unsupported" in done.stderr


@pytest.mark.exhaustive
def test_pretrained_weights_from_a_folder_are_really_loaded(tmp_path: Path) -> None:
    """A model without any weight but 0, saved by transformers itself: its loss, not a random one's."""
    settings = yaml.safe_load((ROOT / "tests/conf/model/bert-for-tests.yaml").read_text())["config"]
    model = transformers.BertForMaskedLM(transformers.BertConfig(**settings))
    for parameter in model.parameters():
        parameter.detach().zero_()
    model.save_pretrained(tmp_path / "weights")
    small = ("model=bert-for-tests", "backend=[pytorch]", "device.world_size=1", "measure.rounds=1")
    _, rows = run(tmp_path, *small, f"model.pretrained={tmp_path / 'weights'}", "adam.lr=1e-8")
    assert list(rows["status"]) == ["ok"]
    # With all weights 0 every token is equally likely.
    assert rows["last_loss"].iloc[0] == pytest.approx(math.log(512), rel=1e-4)
