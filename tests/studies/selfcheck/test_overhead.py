"""What the harness costs against a bare loop, really measured."""

import re
from pathlib import Path

import pandas as pd
import pytest

from tests.support.configs import TINY_MODEL
from tests.support.cores import two_cores
from tests.support.python import run_python


@pytest.mark.exhaustive
@pytest.mark.once
@two_cores
def test_the_overhead_is_really_measured(tmp_path: Path) -> None:
    done = run_python(
        *("-m", "bench.studies.selfcheck.overhead", f"--out={tmp_path}/blocks.csv"),
        *(*TINY_MODEL, "device=cpu"),
        *("measure.launches=1", "measure.rounds=3", "measure.block_seconds=0.3", "measure.wait_s=0"),
        f"results_dir={tmp_path}/results",
    )
    assert done.returncode in (0, 1), done.stderr  # how much it costs is no matter for a busy machine
    last = done.stdout.splitlines()[-1]
    ratio = float(re.match(r"ratio (\d\.\d{3})× \[\d\.\d{3}, \d\.\d{3}\]$", last)[1])  # type: ignore[index]
    blocks = pd.read_csv(tmp_path / "blocks.csv")
    assert list(zip(blocks["launch"], blocks["round"], strict=True)) == [(1, 1), (1, 2), (1, 3)]
    assert ratio > 0
    assert (blocks["bare"] > 0).all()
