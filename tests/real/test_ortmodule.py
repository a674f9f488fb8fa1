"""What ORTModule does otherwise than PyTorch, in this process."""

import copy
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.ort

STEPS = 3


@pytest.fixture(scope="module")
def batch_norms() -> dict[str, list[Any]]:
    """The running means after each of three steps, by engine and place of the batch norm."""
    from bench.worker.engines.ortmodule import Engine

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 5),
        torch.nn.BatchNorm1d(5),
        torch.nn.Tanh(),
        torch.nn.Linear(5, 3),
        torch.nn.BatchNorm1d(3),
    )
    models = {"pytorch": copy.deepcopy(model), "ortmodule": model}
    called = models | {"ortmodule": Engine().wrap(model, threads=1, checkpointing=False)}
    means: dict[str, list[Any]] = {}
    for batch in batches():
        for engine, module in called.items():
            module(batch).square().sum().backward()
            for place, layer in (("inner", 1), ("last", 4)):
                mean = models[engine][layer].running_mean
                means.setdefault(f"{engine} {place}", []).append(mean.clone())
    return means


def batches() -> Iterator[Any]:
    for _ in range(STEPS):
        yield torch.randn(8, 4)


def test_an_inner_batch_norm_counts_every_batch_once(batch_norms: dict[str, list[Any]]) -> None:
    for ours, theirs in zip(batch_norms["ortmodule inner"], batch_norms["pytorch inner"], strict=True):
        torch.testing.assert_close(ours, theirs)


def test_one_whose_output_is_the_model_s_is_never_updated(batch_norms: dict[str, list[Any]]) -> None:
    """docs/known-issues.md says so; the parity launch ends such a model as diverged."""
    assert all(mean.abs().max() > 1e-3 for mean in batch_norms["pytorch last"])
    assert all(not mean.any() for mean in batch_norms["ortmodule last"])


@pytest.mark.exhaustive
def test_the_library_that_onnx_runtime_s_provider_for_gpus_misses_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.worker.engines import _ort_sessions

    compile_library = ("gcc", "-shared", "-x", "c", "/dev/null", "-o")
    subprocess.run([*compile_library, "libmissing.so"], cwd=tmp_path, check=True)
    needs_it = ("-x", "none", "-Wl,--no-as-needed", "-L.", "-lmissing")
    subprocess.run([*compile_library, _ort_sessions.CUDA_LIBRARY, *needs_it], cwd=tmp_path, check=True)
    (tmp_path / "libmissing.so").unlink()
    monkeypatch.setattr("onnxruntime.capi._pybind_state.__file__", str(tmp_path / "any.py"))
    assert "libmissing.so: cannot open shared object file" in _ort_sessions.find_missing_library()


RUNNING = "Error in forward pass execution, onnxruntime: Non-zero status code returned while running"
SOURCE = "/onnxruntime_src/orttraining/orttraining/python/orttraining_pybind_state.cc:548 <lambda(Builder*)>"


def of_sympy() -> None:
    pytest.importorskip("sympy").sympify("1 +")


def of_onnx() -> None:
    import onnx

    onnx.helper.make_attribute("axis", object())


def of_torch() -> None:
    torch.ones(2) @ torch.ones(3)


def of_an_id() -> None:
    torch.nn.Embedding(2, 1)(torch.tensor([2]))


def of_a_list() -> None:
    print([1][2])


def in_an_export(fails: Callable[[], None]) -> Callable[[], None]:
    """As ORTModule raises what it meets in an export."""

    def export() -> None:
        from onnxruntime.training.ortmodule._fallback import ORTModuleONNXModelException, wrap_exception

        try:
            fails()
        except Exception as error:
            words = f"There was an error while exporting the PyTorch model to ONNX: {error}"
            raise wrap_exception(ORTModuleONNXModelException, RuntimeError(words))  # noqa: B904 - as there

    return export


@pytest.mark.parametrize(
    ("raises", "status"),
    [
        (RuntimeError(f"{SOURCE} [ONNXRuntimeError] : 1 : FAIL : Duplicate definition"), "unsupported"),
        (RuntimeError(f"{SOURCE} gradient_builder != nullptr was false."), "unsupported"),
        (RuntimeError(f"{SOURCE} CUDA failure 700: an illegal memory access ; GPU=0"), None),
        (RuntimeError(f"{RUNNING} ATen node. Status Message: index out of range in self"), None),
        (RuntimeError(f"{RUNNING} Gather node. Status Message: indices element out of data bounds"), None),
        (RuntimeError(f"{RUNNING} Einsum node. Status Message: not implemented"), "unsupported"),
        (of_sympy, "unsupported"),
        (of_onnx, "unsupported"),
        (of_torch, None),
        (in_an_export(of_an_id), None),
        (in_an_export(of_a_list), None),
        (in_an_export(of_torch), "unsupported"),
        (in_an_export(of_onnx), "unsupported"),
        (RuntimeError("the loss is no scalar"), None),
    ],
)
def test_what_is_raised_while_the_graph_is_built_is_unsupported(raises: Any, status: str | None) -> None:
    from bench.worker.engines.ortmodule import Engine

    with pytest.raises(Exception) as caught:  # noqa: PT011 - of any kind
        raise raises if isinstance(raises, Exception) else raises()
    assert Engine().status_of(caught.value) == status
