"""Exported models: what is called a difference, what is written, and what a page says of it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.errors import UserError
from bench.measure.comparison import Comparison
from bench.report.content.collection import ReportedComparison
from bench.setup import stacks
from bench.setup.stacks import Installed
from bench.statistics.intervals import median_interval
from bench.studies.export import stage as after_export
from bench.studies.export.files import CheckedExport
from bench.studies.export.stage import ROUNDING, judge
from bench.studies.export.table import TABLE as EXPORTS
from tests.support.configs import a_config
from tests.support.factories import comparison
from tests.support.reports import render_comparison
from tests.support.result_files import table_of_records


def checked(difference: float, scale: float = 10.0) -> CheckedExport:
    return CheckedExport(runtime="1.19.2", difference=difference, from_reference=0.0, scale=scale)


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (checked(0.0), "ok"),
        (checked(0.99 * ROUNDING * 10), "ok"),
        (checked(1.01 * ROUNDING * 10), "diverged"),
        (checked(float("inf")), "diverged"),
        (checked(float("nan")), "diverged"),
        (CheckedExport(runtime="1.19.2", failure="RuntimeError: no kernel"), "crashed"),
    ],
)
def test_a_difference_beyond_rounding_has_a_status(found: CheckedExport, status: str) -> None:
    assert judge(found)[0] == status
    assert bool(judge(found)[1]) == (status != "ok")


def test_the_median_s_interval_supposes_no_distribution() -> None:
    values = [float(one) for one in range(20, 0, -1)]
    assert median_interval(values) == (10.5, 6.0, 15.0), "of 20 the sixth and the fifteenth cover 95.9 %"
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    assert median_interval([5.0]) == (5.0, 5.0, 5.0)


def test_without_onnx_runtime_anywhere_there_is_no_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(stack: str | None = None) -> Installed | None:
        packages = {"onnxruntime-training": "1.19.2"} if stack == "ort" else {"torch": "2.11.0"}
        return None if stack == "modern" else Installed(f"{stack}/python", Path(), "3.11", packages)

    monkeypatch.setattr(stacks, "installed", installed)
    assert after_export.find_interpreter() == "ort/python", "the first that has it"
    monkeypatch.setattr(stacks, "NAMES", ("modern",))
    assert after_export.find_interpreter() is None


def test_a_user_s_settings_of_libraries_do_not_reach_what_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, str] = {}

    def run(_: object, *, env: dict[str, str], **others: object) -> SimpleNamespace:
        given.update(env)
        return SimpleNamespace(returncode=1, stderr="")

    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setattr(after_export, "subprocess", SimpleNamespace(run=run))
    exports = after_export.Exports(Comparison(a_config(tmp_path), "m-cpux2").shared)
    exports._run_checker("python")
    assert (given["OMP_NUM_THREADS"], given["TORCH_WARM_POOL"]) == ("1", "0")


def a_row(**changes: object) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(EXPORTS.columns, "x") | {
        "backend": "ortmodule",
        "status": "ok",
        "message": "",
        "export_s": 1.5,
        "exported_mib": 42.5,
        "output_scale": 3.0,
        "difference": 2e-6,
        "difference_from_reference": 4e-6,
        "inferences": 20,
        "inference_ms": 5.0,
        "inference_low_ms": 4.5,
        "inference_high_ms": 5.5,
    }
    return row | changes


def test_the_file_can_be_read_again_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    path = EXPORTS.path_of(tmp_path / "m.csv")
    assert path == tmp_path / "m.export.csv"
    failed = dict.fromkeys(EXPORTS.numbers, None) | {"status": "unsupported", "message": "no whole weights"}
    EXPORTS.write(path, [a_row(), a_row(**failed)])
    table = EXPORTS.read(path)
    assert table["difference"].tolist()[0] == pytest.approx(2e-6)
    assert table["difference"].isna().tolist() == [False, True]
    assert table["message"].tolist() == ["", "no whole weights"]
    path.write_text(path.read_text().replace("output_scale", "scale"))
    with pytest.raises(UserError, match=r"m\.export\.csv cannot be read as what became of exported models"):
        EXPORTS.read(path)


def test_the_page_has_a_line_for_each_exported_model(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    failed = dict.fromkeys(EXPORTS.numbers, None) | {
        "backend": "pytorch_zero3",
        "status": "unsupported",
        "message": "no whole weights",
    }
    EXPORTS.write(path, [a_row(), a_row(**failed)])
    rows = table_of_records(comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.0], [1.1]]}))
    page = render_comparison(
        ReportedComparison(stem="m", rows=rows, of_studies={"export": EXPORTS.read(path)})
    )
    section = page[page.index("**After training**") :]
    assert "| ortmodule | ok | 42.50 | 3.000 | 2e-06 | 4e-06 | 5.00 [4.50, 5.50] |" in section
    assert "| pytorch_zero3 | unsupported: no whole weights | – | – | – | – | – [–, –] |" in section
    assert "After training" not in render_comparison(ReportedComparison(stem="m", rows=rows))
