"""The page of one comparison, and its table in the terminal."""

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from bench.config.compose import compose
from bench.report.build import render_report
from bench.report.closing_words import print_rest, print_verdict
from bench.report.content.collection import ReportedComparison, read_comparison
from bench.report.content.notes import group_notes
from bench.report.pages.comparison import render_terminal
from bench.report.render.markdown import escaped
from bench.report.words import formatting
from bench.statistics.summary import LEFT_OUT
from tests.support.factories import comparison, failed, with_environment, workload
from tests.support.git import COMMITTED
from tests.support.reports import SECONDS, golden_records, page_of, printed, render_comparison
from tests.support.result_files import table_of_records, write_records

# The page


def test_on_a_gpu_the_memory_is_the_devices_and_the_gpus_are_named() -> None:
    records = with_environment(
        comparison(SECONDS, device="cuda"), gpus=[{"name": "NVIDIA H200"}, {"name": "NVIDIA H200"}]
    )
    rows = table_of_records(records)
    page = render_comparison(ReportedComparison(stem="x", rows=rows))
    assert "peak MiB" not in page, "a column without any number is left out"
    assert "- 2 × NVIDIA H200, 2 ranks\n" in page
    rows.loc[rows["round"].notna(), "device_peak_mib"] = 700.0
    page = render_comparison(ReportedComparison(stem="x", rows=rows))
    assert "| device peak MiB |" in page
    assert page.count(" | 700.0 | ") == 2


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("a|b", r"a\|b"),
        ("<script>", "&lt;script&gt;"),
        ("a & b", "a &amp; b"),
        ("`code`", r"\`code\`"),
        ("one\ntwo", "one two"),
        ("*bold* _it_ snake_case", r"\*bold\* \_it\_ snake_case"),
        ("[link](http://x)", r"[link\](http://x)"),
        ("back\\slash", r"back\\slash"),
        ("\x1b[31mred\x1b[0m\x07", "red"),
    ],
)
def test_foreign_text_is_shown_in_markdown_as_it_is(foreign: str, shown: str) -> None:
    assert escaped(foreign) == shown


def test_warnings_stand_below_the_table_with_their_remedy() -> None:
    rows = table_of_records(comparison({"pytorch": [[2.0], [2.1], [2.3], [2.2]]}))
    remedy = "measure more launches or set measure.target_half_width"
    warning = f"warning: pytorch: launches differ by 6.0 % SD; {remedy}"
    assert f"- {escaped(warning)}" in render_comparison(ReportedComparison(stem="x", rows=rows)).splitlines()
    console = Console(width=100, file=io.StringIO())
    console.print(render_terminal(ReportedComparison(stem="x", rows=rows)))
    assert warning in " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_another_reference_than_pytorch_is_named_below_the_table() -> None:
    seconds = {"pytorch_fused": [[2.0], [2.0]], "ortmodule": [[1.6], [1.6]]}
    words = "speed-ups are over pytorch_fused, since pytorch is not among the backends"
    records = comparison(seconds, reference="pytorch_fused")
    assert f"- {escaped(words)}" in page_of(records).splitlines()
    assert words in " ".join(printed(records).split())
    assert "speed-ups are over" not in page_of(comparison(SECONDS))


def test_a_comparison_whose_backends_all_failed_before_there_was_a_model_is_shown(tmp_path: Path) -> None:
    unknown = workload(parameters=None, trainable_parameters=None, padding_share=None)
    records = [failed(name, "oom", "no memory", 0, workload=unknown) for name in ("pytorch", "ortmodule")]
    write_records(tmp_path / "results" / "bert-tiny-cpux2.csv", records)
    assert not render_report(tmp_path / "results", tmp_path / "reports").refused
    assert "oom: no memory" in (tmp_path / "reports" / "index.md").read_text(encoding="utf-8")


def test_energy_is_shown_where_there_is_a_gpu() -> None:
    on_gpu = comparison({"pytorch": [[2.0]]}, device="h100")
    (metered,) = (dataclasses.replace(one, energy_joules=(300.0, 340.0)) for one in on_gpu[0].blocks)
    on_gpu = [dataclasses.replace(on_gpu[0], blocks=(metered,))]
    header, _, row = [line for line in page_of(on_gpu).splitlines() if line.startswith("|")]
    cells = dict(zip(header.split(" | "), row.split(" | "), strict=True))
    assert cells["energy J/sample"] == "4.000"
    assert "energy" not in page_of(comparison({"pytorch": [[2.0]]}))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0.123456, "0.123"), (7.654321, "7.654"), (80.0, "80.00"), (123456.7, "123,457")],
)
def test_a_figure_has_about_four_digits_and_a_missing_one_a_dash(value: float | None, shown: str) -> None:
    assert formatting.number(value) == shown


# The terminal


def test_the_terminal_table_shows_verdicts_statuses_and_messages() -> None:
    shown = printed(golden_records())
    for words in ("1.250× [1.250, 1.250] faster", "unsupported", "no kernel for | or `x`"):
        assert words in shown


def test_the_terminal_table_fits_100_columns_and_keeps_every_figure_whole() -> None:
    names = ["pytorch", "ortmodule_zero1_with_a_rather_long_name_that_goes_on", "compile"]
    records = comparison(
        {name: [[2.0 + 0.3 * n], [2.1], [2.6]] for n, name in enumerate(names)},
        workload=workload(model="a-model-with-a-name" * 8),
    )
    records.append(failed("ortmodule", "unsupported", "a long reason " * 20))
    shown = printed(records)
    assert max(map(len, shown.splitlines())) <= 100
    for words in ("inconclusive", "unsupported"):
        assert words in shown


MOST_LINES = 28
"""Of one screen: the answer, the table, two warnings, and why."""


@pytest.mark.parametrize(
    "path", sorted(COMMITTED.glob("results/*/bench/*-cpux2.csv")), ids=lambda path: path.parents[1].name
)
def test_the_default_comparison_of_each_machine_fits_one_screen(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = read_comparison(path)
    print_verdict(shown)
    print_rest(shown, [path, path], compose(), interrupted=False)
    assert len(capsys.readouterr().out.strip().splitlines()) <= MOST_LINES


def test_backends_that_lost_a_few_blocks_share_a_line_and_their_counts_stay() -> None:
    lost = [
        ("a", f"1 of 33 {LEFT_OUT}"),
        ("b", f"attention sdpa; 2 of 34 {LEFT_OUT}"),
        ("c", f"2 of 34 {LEFT_OUT}; one launch"),
    ]
    assert group_notes(lost) == [
        "b: attention sdpa",
        "c: one launch",
        f"{LEFT_OUT}: a 1 of 33, b 2 of 34, c 2 of 34",
    ]
