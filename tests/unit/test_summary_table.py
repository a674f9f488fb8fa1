"""One row for each model and backend: summary.csv and Markdown, against hand-made data."""

import csv
import io
import math
from pathlib import Path

import pytest

from bench.report import __main__ as command
from bench.report.build import render_report
from bench.report.commands import markdown_tables
from bench.report.content.backend_columns import IN_SUMMARY, BackendRow, rows_of
from bench.report.content.collection import ReportedComparison
from bench.report.content.models import panels_of
from bench.report.render.csv import render_csv
from tests.support.factories import comparison, failed
from tests.support.many_models import ELEVEN, Model, half_width, write
from tests.support.many_models import comparison as of_model
from tests.support.reports import make_machine
from tests.support.result_files import table_of_records

BART = next(model for model in ELEVEN if model.name == "bart-large")


def table_of(text: str) -> dict[str, dict[str, str]]:
    """The rows of a CSV with one model, by backend."""
    return {row["backend"]: row for row in csv.DictReader(io.StringIO(text))}


def summary_csv(comparison: ReportedComparison) -> str:
    return render_csv(rows_of([comparison]), IN_SUMMARY)


def by_machine(comparison: ReportedComparison) -> dict[str, list[BackendRow]]:
    return {machine: rows_of(group) for machine, group in panels_of([comparison]).items()}


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


def test_the_markdown_table_has_one_row_for_each_backend_under_its_machine() -> None:
    lines = markdown_tables(by_machine(of_model(BART))).splitlines()
    assert lines[0].startswith("**AMD EPYC, 2 cores")
    factor = math.exp(half_width(BART))
    ratio = f"1.180× [{1.18 / factor:.3f}, {1.18 * factor:.3f}]"
    assert lines[6].startswith(f"| bart-large | ortmodule | 60.68 | {ratio} | faster | 1.063× ")
    assert lines[7] == "| bart-large | ortmodule_zero1 | – | oom | – | – | – | – |"
    assert lines[9] == "- bart-large, ortmodule_zero1: made up: it is oom"


def test_several_comparisons_of_a_model_are_told_apart_by_workload_and_overrides() -> None:
    given = {"bf16": {"precision": "bf16"}, "more": {"overrides": '["seed=1"]'}, "plain": {}}
    records = [*comparison({"pytorch": [[2.0], [2.0]]}), failed("x", "oom", "no memory")]
    tables = {stem: table_of_records(records).assign(**changes) for stem, changes in given.items()}
    group = [ReportedComparison(stem=stem, rows=rows) for stem, rows in tables.items()]
    lines = markdown_tables({"here": rows_of(group)}).splitlines()
    workload = "masked-lm, batch 4 × 2 × 2 accumulated, length 128"
    ends = [f"{workload}, bf16", f"{workload}, fp32, seed=1", f"{workload}, fp32"]
    assert lines[2].startswith("| model | workload | backend |")
    shown = [line for line in lines if line.startswith("| bert-tiny | ")]
    assert [line.split(" | ")[1] for line in shown] == [end for end in ends for _ in range(2)]
    assert lines[-3:] == [f"- bert-tiny, {end}, x: no memory" for end in ends]


def test_the_command_prints_or_writes_each_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "results", ELEVEN[:2])
    given = ["table", str(tmp_path / "results")]
    assert command.main([*given, "--models", "bert-large", "--backends", "ortmodule"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("| bert-large | ") == 2  # the reference stays
    assert "ortmodule_zero1" not in printed
    assert "roberta" not in printed
    out = tmp_path / "table.md"
    assert command.main([*given, "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8").startswith("**AMD EPYC")
    assert capsys.readouterr().out == f"wrote {out}\n"
    assert command.main([*given, "--csv"]) == 0
    assert capsys.readouterr().out.count("\n") == 9
    assert command.main([*given, "--models", "x"]) == 2
    assert capsys.readouterr().err.startswith("no comparison is of the model x; choose of bert-large,")


def test_what_is_no_result_is_in_the_csv_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loose = Model(
        name="m", task="masked-lm", speed={"pytorch": 1.0, "ortmodule": 1.2}, changes={"allocator": "system"}
    )
    write(tmp_path, (loose, ELEVEN[0]))
    assert command.main(["table", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "| m |" not in printed.out
    assert printed.err == "m-cpux2 is left out: it leaves threads or allocator alone on purpose\n"
    assert command.main(["table", str(tmp_path), "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["model"]: row["controlled"] for row in rows} == {"m": "0", "bert-large": "1"}
