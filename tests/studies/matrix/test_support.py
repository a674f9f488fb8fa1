"""The support matrix: one comparison for each model, a table of all, what fails said with its reason."""

import csv
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from bench.report import __main__ as report_command
from bench.report.content.collection import collect
from bench.report.content.study_pages import write_page
from bench.report.files import files_of
from bench.report.render.markdown import render_markdown
from bench.results.records import Record
from bench.studies.matrix.pages import PAGE, support_page
from tests.support.factories import comparison, failed, record, workload
from tests.support.reports import make_machine, render_comparison
from tests.support.result_files import write_records

SECONDS = {"pytorch": [[2.0]], "ortmodule": [[1.6]]}


def recorded(model: str, reason: str = "") -> list[Record]:
    """A comparison of one launch and one round; with a reason ORTModule has no part in it."""
    seconds = {"pytorch": SECONDS["pytorch"]} if reason else SECONDS
    made = [*comparison(seconds), *([failed("ortmodule", "unsupported", reason)] if reason else [])]
    return [
        dataclasses.replace(one, comparison=f"{model}-cpux2", workload=workload(model=model, size="mini"))
        for one in made
    ]


def page_of(folder: Path) -> str:
    return render_markdown(support_page(collect(files_of(folder)).comparisons))


def table_of(folder: Path) -> list[dict[str, str]]:
    written, _ = write_page(PAGE, files_of(folder), folder.parent / "reports")
    _, table = written.files
    return list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_records(tmp_path / "matrix" / "gpt2-cpux2.csv", recorded("gpt2"))
    write_records(tmp_path / "matrix" / "beit-base-cpux2.csv", recorded("beit-base", "ResizeGrad | missing"))
    write_records(tmp_path / "matrix" / "mine-cpux2.csv", recorded("mine", "ResizeGrad | missing"))
    return tmp_path / "matrix"


def test_the_table_has_a_row_for_each_model_and_backend(folder: Path) -> None:
    rows = table_of(folder)
    assert [(row["model"], row["backend"], row["status"]) for row in rows] == [
        ("beit-base", "pytorch", "ok"),
        ("beit-base", "ortmodule", "unsupported"),
        ("gpt2", "pytorch", "ok"),
        ("gpt2", "ortmodule", "ok"),
        ("mine", "pytorch", "ok"),
        ("mine", "ortmodule", "unsupported"),
    ]
    _, failed_row, _, ok, *_ = rows
    assert float(ok["speedup"]) == pytest.approx(1.25)
    assert float(ok["loss_difference"]) == 1e-6
    choices = ("engine", "optimizer", "sharding", "stack")
    assert [ok[name] for name in choices] == ["ortmodule", "adamw_fused", "ddp", "ort"]
    assert failed_row["speedup"] == failed_row["loss_difference"] == ""
    assert ok["message"] == "one round: no interval"
    assert failed_row["message"] == "ResizeGrad | missing"


def test_a_damaged_file_is_named_and_stops_no_other(folder: Path) -> None:
    (folder / "mine-cpux2.csv").write_text("model\n")
    written, (sentence,) = write_page(PAGE, files_of(folder), folder.parent / "reports")
    assert "mine-cpux2.csv" in sentence
    assert "| gpt2 | masked-lm | ok | ok 1.25×, 1e-06 |" in written.files[0].read_text(encoding="utf-8")


def test_the_page_says_what_each_backend_trains_and_why_not(folder: Path) -> None:
    page = page_of(folder)
    assert "| gpt2 | masked-lm | ok | ok 1.25×, 1e-06 |" in page
    assert "| beit-base | masked-lm | ok | **unsupported** (1) |" in page
    assert page.count("ResizeGrad \\| missing") == 1, "the same reason stands there once"


def test_each_stack_has_a_table_of_its_own(folder: Path) -> None:
    today = [
        dataclasses.replace(one, comparison="gpt2-cpux2-modern", stack="modern") for one in recorded("gpt2")
    ]
    write_records(folder / "gpt2-cpux2-modern.csv", [one for one in today if one.backend == "pytorch"])
    page = page_of(folder)
    before, pinned, modern = re.split(r"## The \w+ stack\n", page)
    assert "| model |" not in before
    assert "| gpt2 | masked-lm | ok | ok 1.25×, 1e-06 |" in pinned
    assert "| model | task | pytorch |\n" in modern
    assert "| gpt2 | masked-lm | ok |\n" in modern
    assert page.count("A cell: ") == 1


def test_untimed_choices_have_a_table_of_their_own(folder: Path) -> None:
    alike: dict[str, Any] = {"launch": 0, "blocks": (), "setup": None, "first_step": None, "warm_up": ()}
    shape: dict[str, Any] = {
        "comparison": "gpt2-cpux2-choices",
        "workload": workload(model="gpt2", size="mini"),
    }
    write_records(
        folder / "gpt2-cpux2-choices.csv",
        [
            record("pytorch", status="untimed", loss_difference=0.0, **alike, **shape),
            record(
                "compile@modern",
                status="untimed",
                loss_difference=8e-8,
                engine="compile",
                stack="modern",
                **alike,
                **shape,
            ),
            failed("pytorch_fsdp2", "unsupported", "needs a CUDA device", launch=0, **shape),
        ],
    )
    own_page = render_comparison(collect([folder / "gpt2-cpux2-choices.csv"]).comparisons[0])
    assert "pytorch: untimed" not in own_page, "the table says it, and there is no more to say"
    assert "unsupported: needs a CUDA device" in own_page
    page = page_of(folder)
    assert "| gpt2 | masked-lm | ok | ok 1.25×, 1e-06 |" in page, "the table of models is as it was"
    _, choices = page.split("## Other engines")
    assert "| backend | what runs | gpt2 |" in choices
    assert "| compile@modern | compile + adamw + ddp; modern stack | ok, 8e-08 |" in choices
    assert "adamw + ddp; ort stack | **unsupported** (2) |" in choices
    rows = [row for row in table_of(folder) if row["model"] == "gpt2"]
    assert [(row["backend"], row["status"]) for row in rows] == [
        ("pytorch", "untimed"),
        ("compile@modern", "untimed"),
        ("pytorch_fsdp2", "unsupported"),
        ("pytorch", "ok"),
        ("ortmodule", "ok"),
    ]


def test_make_report_rebuilds_the_page_from_the_comparisons(folder: Path, tmp_path: Path) -> None:
    write_records(make_machine(tmp_path) / "bench" / "bert-tiny-cpux2.csv", comparison(SECONDS))
    assert report_command.main([str(tmp_path), "--out", str(tmp_path / "reports")]) == 0
    expected = page_of(folder)
    assert (tmp_path / "reports" / "support.md").read_text() == expected
    index = (tmp_path / "reports" / "index.md").read_text()
    assert not re.search("gpt-?2", index, re.IGNORECASE), "first looks at miniatures are no results"
