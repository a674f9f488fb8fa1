"""The commands as processes of their own: what they import, how they start and how they end."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.config.choices import CONF
from bench.setup.checkout import ROOT
from tests.support.factories import two_backends
from tests.support.python import run_python
from tests.support.result_files import write_records

pytestmark = pytest.mark.once


TABLE_IN_A_TERMINAL = (
    "from tests.support.factories import record; from tests.support.result_files import table_of_records; "
    "from bench.report.pages.comparison import render_terminal; "
    "from bench.report.content.collection import ReportedComparison; "
    "render_terminal(ReportedComparison(stem='x', rows=table_of_records([record()])))"
)
HEAVY = {"torch", "transformers", "onnxruntime", "deepspeed"}


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import bench.compare.__main__, bench.report.__main__", {"matplotlib", "hydra"}),
        ("import bench.config.compose; bench.config.compose.compose()", {"pandas", "matplotlib"}),
        (TABLE_IN_A_TERMINAL, {"matplotlib", "hydra"}),
    ],
)
def test_comparing_composing_and_reporting_import_nothing_heavy(code: str, heavy: set[str]) -> None:
    done = run_python("-c", f"import sys; {code}; print({HEAVY | heavy} & {{*sys.modules}})", check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.time
@pytest.mark.parametrize(
    ("command_line", "library", "times"),
    [
        (["-m", "bench", "--help"], "hydra", 5),  # 3.5 times; with pandas 6 times, with torch 12 times
        # 1.3 to 1.8 times; with torch 5 times
        (["-c", "import bench.compare.__main__, bench.report.__main__"], "pandas", 3),
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
    for command in (WITHOUT_PARSER, [sys.executable, "-m", "bench.compare", "--help"]):
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, env={**os.environ, **variables}, check=True
        )
        assert done.stderr == b""
        assert len(done.stdout) > 400


def test_a_reader_that_leaves_changes_no_exit_status(tmp_path: Path) -> None:
    write_records(tmp_path / "a.csv", two_backends(seed=1))
    write_records(tmp_path / "b.csv", two_backends(seed=2, ort=1.8))
    compare = [sys.executable, "-m", "bench.compare", str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    for command, status in ((compare, 1), (WITHOUT_PARSER, 0)):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            running.stdout.close()
            assert b"Traceback" not in running.stderr.read()
            assert running.wait() == status


def test_help_tells_what_it_is_and_what_there_is_to_choose() -> None:
    done = run_python("-m", "bench", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for group in ("backend", "data", "device", "experiment", "measure", "model", "precision"):
        choices = ", ".join(sorted(path.stem for path in (CONF / group).glob("*.yaml")))
        assert f"\n{group}: {choices}\n" in done.stdout
    assert "python -m bench --multirun" in done.stdout
    assert "micro_batch: ${bench.at_most:${model.micro_batch},${model.size},4}" in done.stdout


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
