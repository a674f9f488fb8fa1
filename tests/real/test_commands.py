"""The commands as processes of their own: what they import, how they start and how they end."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.config.choices import CONF
from bench.results import csv_files
from tests.support.calibration import slowness
from tests.support.factories import two_backends

ROOT = Path(__file__).parents[2]


@pytest.mark.alone
@pytest.mark.quiet
def test_comparing_and_reporting_start_quickly_without_torch_or_matplotlib() -> None:
    code = (
        "import time; start = time.perf_counter()\n"
        "import bench.compare.__main__, bench.report.__main__, sys\n"
        "heavy = {'torch', 'matplotlib', 'transformers', 'onnxruntime', 'deepspeed', 'hydra'}\n"
        "print(time.perf_counter() - start, *sorted(heavy & set(sys.modules)))"
    )
    command_line = [sys.executable, "-c", code]
    runs = [subprocess.check_output(command_line, cwd=ROOT, text=True).split() for _ in range(3)]
    assert [imported for _, *imported in runs] == [[], [], []]
    assert min(float(seconds) for seconds, *_ in runs) < 1.5 * slowness()  # the quickest: other work may run


def test_the_table_does_not_need_matplotlib() -> None:
    code = (
        "import sys\n"
        "from tests.support.factories import record\n"
        "from bench.report.comparison_terminal import render_terminal\n"
        "from bench.report.collection import ReportedComparison\n"
        "from bench.results import csv_files\n"
        "rows = csv_files.table_of_records([record()])\n"
        "render_terminal(ReportedComparison(stem='x', rows=rows)); assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_reader_that_leaves_is_no_regression(tmp_path: Path) -> None:
    csv_files.write_records(tmp_path / "a.csv", two_backends())
    for options in ([], ["--markdown"]):
        command = [sys.executable, "-m", "bench.compare", str(tmp_path / "a.csv"), str(tmp_path / "a.csv")]
        with subprocess.Popen([*command, *options], cwd=ROOT, stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            running.stdout.close()
            assert running.wait(30) in (0, 2)


def test_the_command_ends_with_the_exit_status(tmp_path: Path) -> None:
    csv_files.write_records(tmp_path / "a.csv", two_backends(seed=1))
    csv_files.write_records(tmp_path / "b.csv", two_backends(seed=2, ort=1.8))
    pair = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    done = subprocess.run(
        [sys.executable, "-m", "bench.compare", *pair], cwd=ROOT, capture_output=True, text=True
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


@pytest.mark.alone
@pytest.mark.quiet
def test_help_takes_less_than_a_second_and_a_half() -> None:
    def seconds() -> float:
        started = time.perf_counter()
        command("--help")
        return time.perf_counter() - started

    assert (
        min(seconds() for _ in range(3)) < 1.5 * slowness()
    )  # the best of three: others may use this machine


def test_the_command_refuses_without_a_traceback() -> None:
    done = command("model=bort")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("model=bort does not exist; choose from: bart-large, ")
    assert done.stderr.count("\n") == 1
