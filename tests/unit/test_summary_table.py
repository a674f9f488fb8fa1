"""One row for each model and backend: summary.csv, against hand-made data."""

import csv
import io
import math
from pathlib import Path

import pytest

from bench.report.build import render_report
from bench.report.content.backend_columns import IN_SUMMARY, rows_of
from bench.report.content.collection import ReportedComparison
from bench.report.render.csv import render_csv
from tests.support.factories import comparison
from tests.support.many_models import ELEVEN, half_width, write
from tests.support.many_models import comparison as of_model
from tests.support.reports import make_machine
from tests.support.result_files import table_of_records

BART = next(model for model in ELEVEN if model.name == "bart-large")


def table_of(text: str) -> dict[str, dict[str, str]]:
    """The rows of a CSV with one model, by backend."""
    return {row["backend"]: row for row in csv.DictReader(io.StringIO(text))}


def summary_csv(comparison: ReportedComparison) -> str:
    return render_csv(rows_of([comparison]), IN_SUMMARY)


def test_summary_csv_has_every_figure_with_its_interval() -> None:
    rows = table_of(summary_csv(of_model(BART)))
    assert list(rows) == ["pytorch", "pytorch_best", "ortmodule", "ortmodule_zero1"]
    ort, best, base = rows["ortmodule"], rows["pytorch_best"], rows["pytorch"]
    assert list(ort) == list(IN_SUMMARY)
    factor = math.exp(half_width(BART))
    found = [float(ort[name]) for name in ("speedup", "speedup_low", "speedup_high")]
    assert found == pytest.approx([1.18, 1.18 / factor, 1.18 * factor])
    assert float(ort["over_best"]) == pytest.approx(1.18 / 1.11)
    assert ort["verdict"] == best["verdict"] == "faster"
    assert (base["speedup"], base["verdict"]) == ("", "")  # the reference has none
    assert [rows[name]["is_best_pytorch"] for name in rows] == ["0", "1", "0", "0"]
    assert float(ort["peak_mib"]) == 1040
    assert int(ort["optimizer_state_bytes"]) > 0
    said = {
        "model": "bart-large",
        "label": "bart-large",
        "size": "published",
        "layers": "2",  # of the file that the figures are put into
        "task": "translation",
    }
    said |= {"status": "ok", "controlled": "1", "file": "bart-large-cpux2.csv"}
    assert {name: ort[name] for name in said} == said
    assert ort["machine"] == "AMD EPYC, 2 cores, 2 ranks, as installed"
    assert ort["workload"] == "translation, batch 8 × 2, length 64, fp32"


def test_what_failed_has_its_status_and_message_and_blank_figures() -> None:
    row = table_of(summary_csv(of_model(BART)))["ortmodule_zero1"]
    assert (row["status"], row["message"]) == ("oom", "made up: it is oom")
    figures = ("samples_per_s", "speedup", "speedup_low", "over_best", "peak_mib", "energy_per_sample_j")
    assert {row[name] for name in figures} == {""}


def test_an_infinite_end_is_blank() -> None:
    records = comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.0], [1e300]]})
    rows = table_of(summary_csv(ReportedComparison(stem="x", rows=table_of_records(records))))
    assert rows["ortmodule"]["speedup_high"] == ""
    assert rows["ortmodule"]["speedup"] != ""


def test_the_report_writes_summary_csv_with_the_reproduction(tmp_path: Path) -> None:
    machine = make_machine(tmp_path / "results" / "2-cores-epyc")
    write(machine / "bench", ELEVEN[:1])
    write(machine / "reproduce", ELEVEN[1:2])
    rendered = render_report(machine, tmp_path / "reports")
    assert not rendered.refused
    assert tmp_path / "reports" / "summary.csv" in rendered.written
    text = (tmp_path / "reports" / "summary.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["model"] for row in rows] == ["roberta-large"] * 4 + ["bert-large"] * 4
    assert rows[0]["file"].endswith("results/2-cores-epyc/reproduce/roberta-large-cpux2.csv")


def test_a_last_digit_that_depends_on_the_cpu_is_not_written() -> None:
    columns = {"share": float}
    written = {render_csv([value], columns) for value in (0.8164953128468131, 0.8164953128468132)}
    assert written == {"share\n0.816495312847\n"}
