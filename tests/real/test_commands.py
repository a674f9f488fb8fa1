"""The commands as processes of their own: what they import, how they start and how they end."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.config.choices import CONF
from bench.setup.checkout import ROOT
from tests.support.factories import two_backends
from tests.support.result_files import write_records

pytestmark = pytest.mark.once


def test_comparing_and_reporting_import_nothing_heavy() -> None:
    code = (
        "import bench.plugins.compare.__main__, bench.report.__main__, sys; "
        "print({'torch', 'matplotlib', 'transformers', 'onnxruntime', 'deepspeed', 'hydra'} & {*sys.modules})"
    )
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).strip() == "set()"


@pytest.mark.time
@pytest.mark.parametrize(
    ("command_line", "library", "times"),
    [
        (["-m", "bench", "--help"], "hydra", 5),  # 3.5 times; with pandas 6 times, with torch 12 times
        (
            ["-c", "import bench.plugins.compare.__main__, bench.report.__main__"],
            "pandas",
            3,
        ),  # 1.3 to 1.8 times; with torch 5 times
    ],
)
def test_a_command_takes_little_longer_than_the_library_that_it_needs(
    command_line: list[str], library: str, times: float
) -> None:
    def seconds(*words: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, check=True)
        return time.perf_counter() - started

    # In turns, and the quickest of each, since the machine's speed may change at any moment.
    pairs = [(seconds(*command_line), seconds("-c", f"import {library}")) for _ in range(3)]
    of_command, of_library = (min(durations) for durations in zip(*pairs, strict=True))
    assert of_command < times * of_library


def test_the_table_does_not_need_matplotlib() -> None:
    code = (
        "import sys\n"
        "from tests.support.factories import record\n"
        "from bench.report.pages.comparison import render_terminal\n"
        "from bench.report.content.collection import ReportedComparison\n"
        "from tests.support.result_files import table_of_records\n"
        "rows = table_of_records([record()])\n"
        "render_terminal(ReportedComparison(stem='x', rows=rows)); assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


TABLE = [
    sys.executable,
    "-m",
    "bench.report",
    "table",
    str(ROOT / "tests/golden/results/bert-tiny-cpux2.csv"),
]
"""Prints ×, – and ½, if there are any."""

WITHOUT_PARSER = [
    sys.executable,
    "-c",
    "from bench.closing import print_closing, run_command\n"
    "run_command(lambda: print_closing('1.2 \\u2026 \\u00d7; ' * 80) or 0, '')",
]
"""Prints as `python -m bench` does, which has no `command_parser`."""


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
    ],
)
def test_what_a_terminal_cannot_show_is_replaced(variables: dict[str, str]) -> None:
    for command in (TABLE, WITHOUT_PARSER, [sys.executable, "-m", "bench.plugins.compare", "--help"]):
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, env={**os.environ, **variables}, check=True
        )
        assert done.stderr == b""
        assert len(done.stdout) > 400


def test_a_reader_that_leaves_changes_no_exit_status(tmp_path: Path) -> None:
    write_records(tmp_path / "a.csv", two_backends(seed=1))
    write_records(tmp_path / "b.csv", two_backends(seed=2, ort=1.8))
    compare = [sys.executable, "-m", "bench.plugins.compare", str(tmp_path / "a.csv")]
    for command, status in (
        ([*compare, str(tmp_path / "a.csv")], 0),
        ([*compare, str(tmp_path / "b.csv"), "--markdown"], 1),
        (TABLE, 0),
    ):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            running.stdout.close()
            assert b"Traceback" not in running.stderr.read()
            assert running.wait() == status


def test_a_full_disk_for_the_output_is_a_sentence() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(TABLE, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == (
        "The output is incomplete, since stdout takes no more (no space left on device).\n"
    )
    assert done.returncode == 2
    closed = subprocess.run(shlex.join(TABLE) + " >&- 2>&-", cwd=ROOT, shell=True, check=False)
    assert closed.returncode == 0


def test_the_command_ends_with_the_exit_status(tmp_path: Path) -> None:
    write_records(tmp_path / "a.csv", two_backends(seed=1))
    write_records(tmp_path / "b.csv", two_backends(seed=2, ort=1.8))
    pair = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    done = subprocess.run(
        [sys.executable, "-m", "bench.plugins.compare", *pair], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "Traceback" not in done.stderr


def test_composing_imports_nothing_heavy() -> None:
    code = (
        "import sys, bench.config.compose, bench.config.naming; bench.config.compose.compose(); "
        "print({'torch', 'transformers', 'onnxruntime', 'pandas', 'matplotlib'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CONF.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *words], cwd=CONF.parent, capture_output=True, text=True
    )


def test_help_tells_what_it_is_and_what_there_is_to_choose() -> None:
    done = command("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for group in ("backend", "data", "device", "experiment", "measure", "model", "precision"):
        choices = ", ".join(sorted(path.stem for path in (CONF / group).glob("*.yaml")))
        assert f"\n{group}: {choices}\n" in done.stdout
    assert "python -m bench --multirun" in done.stdout
    assert "micro_batch: ${bench.at_most:${model.micro_batch},${model.size},4}" in done.stdout


def test_the_command_refuses_without_a_traceback() -> None:
    done = command("model=bort")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("model=bort does not exist; choose from: bart-large, ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["bench", "PRECISION=bf16"], 'Hydra overrides go into ARGS="PRECISION=bf16"'),
        (["claims", "MODEL=gpt2"], "`make claims` does not read MODEL=; leave it out"),
        (["advise", "GPUS=2"], 'write ARGS="device=cuda device.world_size=2"'),
        (["compare", "NEW=results"], "NEW= needs BASE=, which it is compared with"),
    ],
)
def test_make_refuses_a_variable_that_would_be_ignored(words: list[str], sentence: str) -> None:
    done = subprocess.run(
        ["make", "--dry-run", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert sentence in done.stderr
