"""The work of a step and the rates of matrix products in a whole comparison of fake groups."""

from pathlib import Path

import pytest

from tests.support.comparisons import Simulated

pytestmark = pytest.mark.usefixtures("two_cores")


def test_every_row_has_the_work_of_a_step_and_the_rate_of_both_ranks(tmp_path: Path) -> None:
    run = Simulated(tmp_path)
    # 4000 FLOPs a micro-batch of 4, two of them on two ranks; three steps in 3 x 0.505 s on the slower one
    assert {row["model_flops_per_step"] for row in run.rows} == {"16000"}
    assert {row["limit_flops_per_s"] for row in run.rows} == {"4000000"}
    share = 16000 / 0.505 / 4_000_000
    assert float(run.of("pytorch")[0]["roofline_share"]) == pytest.approx(share)


def test_every_row_has_the_rates_of_both_libraries_at_the_workload_s_shapes(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"products": (1e6, 4e6, 2e6)}})
    # 3000 FLOPs at one shape and 1000 at the other, on two ranks
    pytorch, ort = 4000 / (3000 / 2e6 + 1000 / 1e6), 4000 / (3000 / 8e6 + 1000 / 4e6)
    for row in run.rows:
        assert float(row["torch_matmul_flops_per_s"]) == pytest.approx(pytorch)
        assert float(row["ort_matmul_flops_per_s"]) == pytest.approx(ort)
        assert float(row["limit_flops_per_s"]) == 8e6, "the highest of all"


@pytest.mark.parametrize("schedule", ["interleaved", "sequential"])
def test_each_library_is_asked_once_and_of_the_first_that_has_it(tmp_path: Path, schedule: str) -> None:
    run = Simulated(tmp_path, schedule=schedule)
    asked = {group.spec.backend: group.counts for group in run.groups if "time_products" in group.counts}
    assert set(asked) == {"pytorch", "ortmodule"}
    assert [counts.get("count_flops") for counts in asked.values()] == [1, None]
    found = run.comparison.shared.ledger.records[1, "ortmodule_zero1"].found["limit"]
    assert [one.library for one in found.libraries] == ["torch", "onnxruntime"]


def test_a_library_is_asked_at_each_precision_and_a_row_has_what_was_timed_at_its_own(tmp_path: Path) -> None:
    scripts = {"pytorch": {"products": (2e6,) * 3}, "ortmodule_zero1": {"products": (8e6,) * 3}}
    run = Simulated(tmp_path, scripts, backends={"ortmodule_zero1": {"precision": "fp16"}})
    found = run.comparison.shared.ledger.records[1, "ortmodule_zero1"].found["limit"]
    assert [(one.library, one.precision) for one in found.libraries] == [
        ("torch", "fp32"),
        ("onnxruntime", "fp32"),
        ("onnxruntime", "fp16"),
    ]
    half, full = run.of("ortmodule_zero1")[0], run.of("ortmodule")[0]
    assert (half["torch_matmul_flops_per_s"], float(half["ort_matmul_flops_per_s"])) == ("", 16e6)
    assert (float(half["limit_flops_per_s"]), float(full["limit_flops_per_s"])) == (16e6, 4e6)


@pytest.mark.parametrize(
    ("backend", "request_", "lost"),
    [
        ("pytorch", "count_flops", {"model_flops_per_step", "torch_matmul_flops_per_s", "roofline_share"}),
        ("pytorch", "time_products", {"torch_matmul_flops_per_s"}),
        ("ortmodule", "time_products", {"ort_matmul_flops_per_s"}),
    ],
)
def test_what_cannot_be_measured_is_blank_and_everything_else_is_there(
    tmp_path: Path, backend: str, request_: str, lost: set[str]
) -> None:
    killed = ("oom", "rank 0 was killed by SIGKILL", "")
    run = Simulated(tmp_path, {backend: {"fails": {(request_, 0, 1): killed}}})
    assert run.failures == []
    assert len(run.rows) == 18
    known = {"model_flops_per_step", "torch_matmul_flops_per_s", "ort_matmul_flops_per_s", "roofline_share"}
    if request_ == "count_flops":  # and with it the shapes
        lost = lost | {"ort_matmul_flops_per_s"}
    for row in run.rows:
        assert {column for column in known if row[column] == ""} == lost
    (said,) = run.comparison.shared.ledger.records[1, "ortmodule"].found["limit"].absent
    assert said == f"{backend}: oom: rank 0 was killed by SIGKILL"
    assert f"not all is known about this device's limit: {said}" in run.printed
