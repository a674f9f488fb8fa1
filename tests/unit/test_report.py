import dataclasses
import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rich.console import Console

from bench.report import __main__ as command
from bench.report import describe, formatting, markdown
from bench.report.collection import ReportedComparison
from bench.report.comparison_page import render_comparison
from bench.report.comparison_terminal import render_terminal
from bench.report.figures import chart, style
from bench.report.render import render_comparisons
from bench.results import csv_files
from bench.results.records import Record
from tests.support.factories import block, comparison, failed, phase, record, with_environment, workload

ROOT = Path(__file__).parents[2]

SECONDS = {"pytorch": [[2.0], [2.0]], "ortmodule": [[1.6], [1.6]]}

GOLDEN = """\
# bert-tiny-cpux2

| backend | what runs | samples/s | speed-up [95 %] | verdict | host peak MiB/rank | \
optimizer state MiB/rank | set-up s | first step s | break-even steps | loss difference | status |
| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| pytorch | eager + adamw + ddp | 80.00 | 1.000× | reference | 500.0 | 0.002 | 4.00 | 1.00 | – | 0 | ok |
| ortmodule | ortmodule + adamw_fused + ddp | 100.0 | 1.250× [1.250, 1.250] | faster | 500.0 | \
0.002 | 4.00 | 28.0 | 675 | 1e-06 | ok |
| ortmodule_zero1 | ortmodule + adamw_fused + zero1 | – | unsupported | – | – | – | – | – | – | – | \
unsupported |

- ortmodule_zero1: unsupported: no kernel for \\| or \\`x\\`, &lt;b&gt; on two lines

- bert-tiny (masked-lm), 4,416,698 parameters, batch 4 × accumulation 2 × 2 ranks = 16, \
length 128, padding share 0.25, fp32, eager attention
- cpu: Example CPU (2 cores), 2 ranks × 1 thread, tuned allocator
- deepspeed 0.16.9, onnxruntime-training-cpu 1.19.2, torch 2.6.0, transformers 4.49.0, stack ort, \
commit 0123456789ab, 2026-11-20
- made by: make bench
- 2 launches × 1 round. Speed-up: the ratio of samples/s within each round, midmean of the \
logarithms over the rounds of a launch, then geometric mean over launches; 95 % confidence interval: \
Student's t over the launches. Peak memory is that of the timed blocks.
- figures, and every other comparison: [index.md](index.md)
"""


def golden_records() -> list[Record]:
    late = phase((28.0, 1.0))
    return [
        *comparison({"pytorch": SECONDS["pytorch"]}),
        *comparison({"ortmodule": SECONDS["ortmodule"]}, first_step=late),
        failed("ortmodule_zero1", "unsupported", "no kernel for | or `x`,\n<b> on two lines"),
    ]


def save(folder: Path, records: list[Record], stem: str = "bert-tiny-cpux2") -> Path:
    path = folder / "results" / f"{stem}.csv"
    csv_files.write_records(path, records)
    return path


def rendered(folder: Path, records: list[Record], figure: str = "speedup") -> Path:
    """One figure of a report about these records alone."""
    save(folder, records)
    render_comparisons(folder / "results", folder / "reports")
    return folder / "reports" / f"{figure}.svg"


def page_of(records: list[Record]) -> str:
    return render_comparison(ReportedComparison(stem="x", rows=csv_files.table_of_records(records)))


def printed(records: list[Record]) -> str:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(render_terminal(csv_files.table_of_records(records)))
    return capture.get()


def svg_texts(path: Path) -> list[str]:
    """Every text of the picture, in order."""
    root = ElementTree.parse(path).getroot()
    return ["".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")]


# The page


def test_the_page_holds_exactly_this_table_and_caption(tmp_path: Path) -> None:
    save(tmp_path, golden_records())
    render_comparisons(tmp_path / "results", tmp_path / "reports")
    assert (tmp_path / "reports" / "bert-tiny-cpux2.md").read_text(encoding="utf-8") == GOLDEN


def test_on_a_gpu_the_memory_is_the_devices_and_the_gpus_are_named() -> None:
    records = with_environment(
        comparison(SECONDS, device="cuda"),
        gpus=[{"name": "NVIDIA H200"}, {"name": "NVIDIA H200"}],
    )
    page = page_of(records)
    assert "| device peak MiB |" in page
    assert "cuda: 2 × NVIDIA H200, 2 ranks × 1 thread" in page


def test_a_bare_environment_is_tolerated() -> None:
    page = page_of(comparison(SECONDS, environment={}))
    assert "- cpu: CPU, 2 ranks × 1 thread, tuned allocator" in page
    assert "- stack ort, commit 0123456789ab, 2026-11-20" in page


def test_a_commit_is_shortened_and_stays_marked_as_dirty() -> None:
    rows = csv_files.table_of_records(comparison(SECONDS, git_commit="0123456789abcdef0123-dirty"))
    assert "commit 0123456789ab-dirty" in describe.versions(rows)


def test_launches_of_unequal_length_are_counted_in_all() -> None:
    rows = csv_files.table_of_records(comparison({"pytorch": [[2.0, 2.0], [2.0]]}))
    assert describe.extent(rows) == "2 launches, 3 rounds in all"


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
    assert markdown.escaped(foreign) == shown


def test_warnings_stand_below_the_table_with_their_remedy() -> None:
    rows = csv_files.table_of_records(comparison({"pytorch": [[2.4, 2.0, 2.0, 2.0]] * 3}))
    warning = (
        "warning: pytorch: the first round of a launch is 18.2 % slower than its others; "
        "raise measure.warmup_steps"
    )
    assert (
        f"- {markdown.escaped(warning)}"
        in render_comparison(ReportedComparison(stem="x", rows=rows)).splitlines()
    )
    console = Console(width=100, file=io.StringIO())
    console.print(render_terminal(rows))
    assert warning in " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_it_is_said_whether_loader_or_device_limits_a_run() -> None:
    def waiting(backend: str, seconds: float) -> Record:
        return record(backend, blocks=(block(loader_seconds=(seconds, seconds)),))

    rows = csv_files.table_of_records([waiting("pytorch", 0.006), waiting("ortmodule", 0.3)])
    page = render_comparison(ReportedComparison(stem="x", rows=rows)).splitlines()
    assert "- limited by the device: ranks waited 0.3% (pytorch) of the time for batches" in page
    assert "- limited by the loader: ranks waited 15.0% (ortmodule) of the time for batches" in page
    console = Console(width=100, file=io.StringIO())
    console.print(render_terminal(rows))
    assert "limited by the loader" in console.file.getvalue()  # type: ignore[attr-defined]
    synthetic = render_comparison(ReportedComparison(stem="x", rows=csv_files.table_of_records([record()])))
    assert "limited by" not in synthetic


def test_a_comparison_whose_backends_all_failed_before_there_was_a_model_is_shown(tmp_path: Path) -> None:
    unknown = workload(parameters=None, trainable_parameters=None, padding_share=None)
    records = [failed(name, "oom", "no memory", 0, workload=unknown) for name in ("pytorch", "ortmodule")]
    csv_files.write_records(tmp_path / "results" / "bert-tiny-cpux2.csv", records)
    made, refused = render_comparisons(tmp_path / "results", tmp_path / "reports")
    assert not refused
    assert any("oom: no memory" in path.read_text(encoding="utf-8") for path in made if path.suffix == ".md")


def test_energy_is_shown_where_there_is_a_gpu() -> None:
    on_gpu = comparison({"pytorch": [[2.0]]}, device="h100")
    (metered,) = (dataclasses.replace(one, energy_joules=(300.0, 340.0)) for one in on_gpu[0].blocks)
    on_gpu = [dataclasses.replace(on_gpu[0], blocks=(metered,))]
    header, _, row = [line for line in page_of(on_gpu).splitlines() if line.startswith("|")]
    cells = dict(zip(header.split(" | "), row.split(" | "), strict=True))
    assert cells["energy J/sample"] == "4.000"
    assert "energy" not in page_of(comparison({"pytorch": [[2.0]]}))


def test_a_name_with_a_pipe_and_a_line_break_adds_no_cell_and_no_row() -> None:
    records = comparison({"pytorch": [[2.0]], "ort|module\n`x`": [[1.5]]})
    lines = page_of(records).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 4
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {13}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0.123456, "0.123"), (7.654321, "7.654"), (80.0, "80.00"), (123456.7, "123,457")],
)
def test_a_figure_has_about_four_digits_and_a_missing_one_a_dash(value: float | None, shown: str) -> None:
    assert formatting.number(value) == shown


# The terminal


def test_the_terminal_table_shows_verdicts_statuses_and_messages() -> None:
    shown = printed(golden_records())
    for words in (
        "1.250× faster",
        "[1.250, 1.250]",
        "unsupported",
        "675",
        "no kernel for | or `x`",
    ):
        assert words in shown


def test_the_terminal_table_fits_100_columns_and_keeps_every_figure_whole() -> None:
    late = phase((12345.6,))
    names = ["pytorch", "ortmodule_zero1_with_a_rather_long_name_that_goes_on", "compile"]
    records = comparison(
        {name: [[2.0 + 0.3 * n], [2.1], [2.6]] for n, name in enumerate(names)},
        setup=late,
        loss_difference=1.2345e-11,
        workload=workload(model="a-model-with-a-name" * 8),
    )
    records.append(failed("ortmodule", "unsupported", "a long reason " * 20))
    shown = printed(records)
    assert max(map(len, shown.splitlines())) <= 100
    for words in ("inconclusive", "unsupported", "12,346", "1.2e-11"):
        assert words in shown


# The figure


def test_the_figure_shows_every_value_interval_verdict_and_status(tmp_path: Path) -> None:
    svg = rendered(tmp_path, golden_records())
    texts = svg_texts(svg)
    for words in (
        "Throughput relative to pytorch, all backends at the same batch",
        "bert-tiny: masked-lm, batch 4 × 2 × 2 accumulated, length 128, fp32",
        "ortmodule",
        "1.250×",
        "faster [1.250, 1.250]",
        "ortmodule_zero1",
        "unsupported",
        "speed-up over pytorch (×, higher is better)",
    ):
        assert words in texts
    assert any("Example CPU (2 cores), 2 ranks × 1 thread" in words for words in texts)


def test_the_bars_start_at_zero(tmp_path: Path) -> None:
    svg = rendered(tmp_path, golden_records())
    assert "0.0" in svg_texts(svg)


def test_a_backend_without_speedup_shows_the_reason_in_place_of_its_bar(tmp_path: Path) -> None:
    records = [failed("pytorch", "oom", "no memory"), *comparison({"ortmodule": [[1.5]]})]
    svg = rendered(tmp_path, records)
    texts = svg_texts(svg)
    assert "no speed-up: the reference pytorch is oom" in " ".join(texts)
    assert not any(re.fullmatch(r"\d\.\d{3}×", words) for words in texts)


def test_a_single_launch_is_admitted_under_the_figure(tmp_path: Path) -> None:
    records = comparison({"pytorch": [[2.0, 2.1]], "ortmodule": [[1.5, 1.6]]})
    svg = rendered(tmp_path, records)
    assert "the variation between launches is not in the interval" in " ".join(svg_texts(svg))


def test_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    save(tmp_path, golden_records())
    first, second = (render_comparisons(tmp_path / "results", tmp_path / name)[0] for name in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert {path.name for path in first} >= {
        "index.md",
        "index.html",
        "speedup.svg",
        "rounds.svg",
        "memory.svg",
    }


@pytest.mark.parametrize("name", ["a$b$_c", "<b>&", "日本語", "x" * 70, "\x1b[31mred\x00", "a\nb"])
def test_any_name_gives_a_wellformed_figure_without_a_warning(
    tmp_path: Path, name: str, recwarn: pytest.WarningsRecorder
) -> None:
    records = comparison({"pytorch": [[2.0], [2.0]], name: [[1.5], [1.6]]})
    svg = rendered(tmp_path, records)
    shown = formatting.one_line(name)
    assert chart.shortened(shown) in "".join(svg_texts(svg))
    assert not recwarn.list


def test_an_infinite_interval_and_a_single_round_are_drawn(tmp_path: Path) -> None:
    far = comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.0], [1e120]]})
    lone = comparison({"pytorch": [[2.0]], "ortmodule": [[1.5]]})
    for records, shown in ((far, "inconclusive [0.000, inf]"), (lone, "inconclusive no interval")):
        svg = rendered(tmp_path, records)
        assert shown in svg_texts(svg)


def test_a_backend_looks_the_same_everywhere_and_the_known_ones_differ() -> None:
    assert style.look("never heard of") == style.look("never heard of")
    known = [style.look(name) for name in ("pytorch", "ortmodule", "ortmodule_zero1")]
    assert len({colour for colour, _ in known}) == 3
    assert len({hatch for _, hatch in known}) == 3


# The command


def test_every_results_file_is_rendered_and_a_damaged_one_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, golden_records(), "a")
    save(tmp_path, golden_records(), "c")
    (tmp_path / "results" / "b.csv").write_text("half")
    out = tmp_path / "reports"
    assert command.main([str(tmp_path / "results"), "--out", str(out)]) == 2
    assert {path.name for path in out.iterdir()} >= {"a.md", "c.md", "index.html"}
    assert "b.csv is damaged" in (out / "index.html").read_text(encoding="utf-8")
    error = capsys.readouterr().err
    assert "b.csv is damaged" in error
    assert error.count("\n") == 1


def test_a_folder_without_results_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "holds no results file" in capsys.readouterr().err


def test_comparisons_of_the_same_workload_are_told_apart_and_others_need_no_name(tmp_path: Path) -> None:
    def tables(folder: Path) -> tuple[str, str]:
        render_comparisons(folder / "results", folder / "reports")
        names = ("index.md", "index.html")
        index, page = ((folder / "reports" / name).read_text(encoding="utf-8") for name in names)
        return index, page

    for stem in ("bert-tiny-cpux2", "bert-tiny-cpux2-experiment=stacks"):
        save(tmp_path / "twice", golden_records(), stem)
    index, page = tables(tmp_path / "twice")
    assert "| model | workload | comparison | backend |" in index
    assert index.count("| cpux2-experiment=stacks | ") == index.count("| cpux2 | ") > 1
    assert '<td class="comparison">cpux2-experiment=stacks</td>' in page

    save(tmp_path / "once", golden_records(), "bert-tiny-cpux2")
    index, page = tables(tmp_path / "once")
    assert "| model | workload | backend |" in index
    assert 'class="comparison"' not in page


def test_the_index_leads_to_the_pages_about_what_is_no_comparison(tmp_path: Path) -> None:
    save(tmp_path, golden_records(), "a")
    page = tmp_path / "reports" / "index.md"
    for folder, link in (("matrix", "support.md"), ("selftest", "selftest.md")):
        render_comparisons(tmp_path / "results", tmp_path / "reports")
        assert link not in page.read_text(encoding="utf-8")
        (tmp_path / "results" / folder).mkdir()
        (tmp_path / "results" / folder / "verdicts.csv").touch()
        render_comparisons(tmp_path / "results", tmp_path / "reports")
        assert f"]({link})" in page.read_text(encoding="utf-8")


def test_blocks_that_were_left_out_are_mentioned_below_the_table() -> None:
    blocks = tuple(block(n, cpu_seconds=(9.0 if n == 1 else 2.0, 2.0)) for n in range(1, 5))
    page = page_of([record(blocks=blocks)])
    assert "- pytorch: 1 of 4 blocks invalid and left out" in page


def at_largest(**sizes: int) -> list[Record]:
    """Each backend at its own micro-batch, with one speed-up that no other comparison has."""
    return [
        one
        for (name, size), seconds in zip(sizes.items(), (2.0, 1.0), strict=True)
        for one in comparison(
            {name: [[seconds], [seconds]]},
            workload=workload(model="vit-base", micro_batch=size, batch_rule="max", memory_limit_gib=4.0),
        )
    ]


@pytest.fixture
def both_rules(tmp_path: Path) -> Path:
    """The reports on a comparison at equal batch and one at the largest."""
    equal = comparison(
        {"pytorch": [[2.0], [2.0]], "ortmodule_zero1": [[1.6], [1.6]]}, workload=workload(model="vit-base")
    )
    save(tmp_path, equal, "equal")
    save(tmp_path, at_largest(pytorch=18, ortmodule_zero1=34), "largest")
    render_comparisons(tmp_path / "results", tmp_path / "reports")
    return tmp_path / "reports"


HEADING = "; each backend at its largest batch, memory limit 4 GiB per backend"


def test_results_at_equal_and_at_the_largest_batch_never_share_a_table_or_a_mean(both_rules: Path) -> None:
    index = (both_rules / "index.md").read_text(encoding="utf-8")
    equal, largest = (part.split("\n## ")[0] for part in index.split("\n## cpu: ")[1:])
    assert HEADING not in equal
    assert HEADING in largest.splitlines()[0]
    assert "micro-batch" not in equal
    assert "| model | workload | backend | micro-batch |" in largest
    assert "| pytorch | 18 |" in largest
    assert "| ortmodule_zero1 | 34 |" in largest
    assert "1.250×" in equal
    assert "1.250×" not in largest
    # 34 x 4 samples in half the time of 18 x 4
    assert f"{2 * 34 / 18:.3f}×" in largest
    assert f"{2 * 34 / 18:.3f}×" not in equal
    assert index.count("| 1 of 1 |") == 2
    assert "batch 18/34" not in index
    page = (both_rules / "index.html").read_text(encoding="utf-8")
    assert page.count('<table class="results">') == 2
    headings = re.findall("<h3>(.*)</h3>", page)[:2]
    assert ["each backend at its largest batch" in heading for heading in headings] == [False, True]


def test_nor_do_they_share_a_figure_and_published_marks_stand_with_their_own(both_rules: Path) -> None:
    equal, largest = (svg_texts(both_rules / name) for name in ("speedup.svg", "speedup-2.svg"))
    assert "Throughput relative to pytorch, all backends at the same batch" in equal
    assert "Throughput relative to pytorch, each backend at its largest batch" in largest
    assert "vit-base: masked-lm, batch 4 × 2 × 2 accumulated, length 128, fp32" in equal
    sizes = "fp32 (pytorch 18, ortmodule_zero1 34)"
    assert sizes in " ".join(largest)
    # vit-base was published with each side at its own largest batch.
    assert "Diamonds" in " ".join(largest)
    assert "Diamonds" not in " ".join(equal)
    assert "Grey band" in " ".join(equal)
    assert "Grey band" not in " ".join(largest)


def test_the_page_of_a_comparison_at_the_largest_batch_shows_each_and_the_limit(both_rules: Path) -> None:
    page = (both_rules / "largest.md").read_text(encoding="utf-8")
    assert "| backend | what runs | micro-batch | samples/s |" in page
    assert "| eager + adamw + ddp | 18 |" in page
    assert (
        "each backend at its largest micro-batch (pytorch 18, ortmodule_zero1 34) × accumulation 2 × 2 "
        "ranks, memory limit 4 GiB per backend, length 128" in page
    )
    shown = printed(at_largest(pytorch=18, ortmodule=34))
    assert all(len(line) <= 100 for line in shown.splitlines())
    assert re.search(r"ortmodule +34 ", shown)


def test_a_memory_limit_tells_comparisons_at_equal_batch_apart() -> None:
    limited, free = (
        csv_files.table_of_records(comparison(SECONDS, workload=workload(memory_limit_gib=limit)))
        for limit in (4.5, None)
    )
    assert (
        describe.short_workload(limited)
        == f"{describe.short_workload(free)}, memory limit 4.5 GiB per backend"
    )
    assert "memory limit 4.5 GiB per backend" in describe.workload(limited)
    assert "memory" not in describe.workload(free)
