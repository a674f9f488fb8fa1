"""Tables of many models, against hand-made data, and the figure and table of the tutorial."""

import csv
import io
import math
import re
from pathlib import Path

import pytest

from bench.report import __main__ as command
from bench.report.content.backend_columns import BackendRow, rows_of
from bench.report.content.collection import ReportedComparison
from bench.studies.models.choosing import panels_of
from bench.studies.models.commands import markdown_tables
from tests.support.factories import comparison, failed
from tests.support.many_models import ELEVEN, Model, half_width, write
from tests.support.many_models import comparison as of_model
from tests.support.pages import ROOT, text_of
from tests.support.reports import svg_texts
from tests.support.result_files import table_of_records

BART = next(model for model in ELEVEN if model.name == "bart-large")


def by_machine(comparison: ReportedComparison) -> dict[str, list[BackendRow]]:
    return {machine: rows_of(group) for machine, group in panels_of([comparison]).items()}


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


def test_the_tutorials_figure_and_table_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    lines = text_of("docs/tutorial.md").replace("\\\n", "").splitlines()
    figure, table = (line.split()[3:] for line in lines if line.startswith("python -m bench.report "))
    for words in (figure, table, [word.replace(".pdf", ".svg") for word in figure]):
        assert command.main(words) == 0
        assert (tmp_path / words[words.index("--out") + 1]).stat().st_size > 500
    caption, *_ = re.findall("^Caption: .*", capsys.readouterr().out, re.MULTILINE)
    assert f"> {caption}\n" in text_of("docs/tutorial.md")
    assert svg_texts(tmp_path / "own-gpt.svg") == svg_texts(ROOT / "docs" / "examples" / "own-gpt.svg")
