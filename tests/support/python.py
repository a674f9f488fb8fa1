"""Programs of this interpreter that a test waits for."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.setup.checkout import ROOT


def run_python(
    *words: str | Path, variables: Mapping[str, str] = {}, cwd: Path = ROOT, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """What came of `python` with these words, and with these variables beside those that there are.

    With `check` a program that fails fails the test.
    """
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done
