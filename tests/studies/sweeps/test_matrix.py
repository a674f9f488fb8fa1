"""The support matrix: one comparison for each model, a table of all, what fails said with its reason."""

import csv
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from bench.config.compose import compose
from bench.config.differences import overrides_of
from bench.config.schema import Config
from bench.measure.plan import preflight
from bench.report import __main__ as report_command
from bench.report.build import SUPPORT_TABLE, write_support
from bench.report.content.collection import collect
from bench.report.files import files_of
from bench.report.pages.support import support_page
from bench.report.render.markdown import render_markdown
from bench.results.records import Record
from bench.setup import stacks
from bench.setup.checkout import ROOT
from bench.studies.sweeps import __main__ as sweeps
from bench.studies.sweeps import comparisons, plan_file, runner
from tests.support.factories import comparison, failed, record, workload
from tests.support.reports import make_machine, render_comparison
from tests.support.result_files import write_records

pytestmark = pytest.mark.once

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
    (_, table), _ = write_support(folder, folder.parent / "reports")
    return list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))


def planned_models(part: str) -> list[str]:
    (planned,) = plan_file.select_parts(plan_file.load_plan("matrix"), [part])
    return list(planned.models)


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
    written, (sentence,) = write_support(folder, folder.parent / "reports")
    assert "mine-cpux2.csv" in sentence
    assert "| gpt2 | masked-lm | ok | ok 1.25×, 1e-06 |" in written[0].read_text(encoding="utf-8")


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


@pytest.fixture
def both_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stack seems set up, wherever the tests run: the checks find in it what they find here."""
    monkeypatch.setattr(stacks, "installed", lambda stack=None: stacks.installed_here())
    monkeypatch.setattr(
        preflight, "recorded_choice", lambda env: None
    )  # so that nothing is known to be missing


@pytest.mark.slow
@pytest.mark.ort
@pytest.mark.usefixtures("both_stacks")
def test_make_matrix_measures_every_model_once_in_mini(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, list[str]]] = []

    def measure(config: Config, stem: str) -> None:
        asked.append((config.model.name, config.model.size, overrides_of(config)))
        write_records(Path(config.results_dir) / f"{stem}.csv", recorded(config.model.name))

    monkeypatch.setattr(runner, "measure_comparison", measure)
    out = [f"results_dir={tmp_path / 'm'}", f"reports_dir={tmp_path / 'reports'}"]
    assert sweeps.main(["matrix", "parts=models,choices", "device=cpu", *out]) == 0
    assert [name for name, _, _ in asked] == planned_models("models") + planned_models("choices")
    assert {size for _, size, _ in asked} == {"mini"}
    lines = [["experiment=matrix", "model=bert-large"], ["experiment=choices", "model=whisper-small"]]
    for line, (_, _, overrides) in zip(lines, [asked[0], asked[-1]], strict=True):
        assert overrides == overrides_of(compose(["study=matrix", "device=cpu", *line]))
    with (tmp_path / "reports" / SUPPORT_TABLE).open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 2 * len(asked)
    assert (tmp_path / "reports" / "support.md").exists()


def test_the_matrix_has_twenty_architectures_of_a_config_json_alone() -> None:
    folders = [ROOT / folder for folder in planned_models("architectures")]
    assert len(folders) >= 20
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == [["config.json"]] * len(
        folders
    )


def test_a_preset_is_no_model_of_the_part_with_folders_nor_a_folder_of_the_others() -> None:
    plan = plan_file.load_plan("matrix")
    (part,) = plan_file.select_parts(plan, ["architectures"], ["gpt2"])
    (others,) = plan_file.select_parts(plan, ["models"], ["conf/sweeps/architectures/gpt2"])
    assert comparisons.plan_comparisons(plan, [part, others], []) == []


@pytest.mark.ort
@pytest.mark.usefixtures("both_stacks")
def test_some_models_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measure(config: Config, stem: str) -> None:
        asked.append(stem)
        write_records(Path(config.results_dir) / f"{stem}.csv", recorded(config.model.name))

    monkeypatch.setattr(runner, "measure_comparison", measure)
    out = [f"results_dir={tmp_path / 'm'}", f"reports_dir={tmp_path / 'reports'}"]
    assert sweeps.main(["matrix", "device=cpu", "model=gpt2,t5-large", "seq_len=32", *out]) == 0
    assert [stem[:-5] for stem in asked] == [
        "gpt2-cpux2-pytorch_zero1-mini-seq_len-32",
        "t5-large-cpux2-pytorch_zero1-mini-seq_len-32",
        "gpt2-cpux2-19-backends-parity-mini-seq_len-32",
        "t5-large-cpux2-19-backends-parity-mini-seq_len-32",
    ]
