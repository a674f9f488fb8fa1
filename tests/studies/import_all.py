"""`python -m tests.studies.import_all`, for each line that it reads, in a fork: pytest, then all imports.

A line is JSON: `words` of pytest, which does not run without any, `modules`, and the file that gets the
`output`. The answer is the fork's exit status, in a line. What others have made is imported once, and nothing
of ours.
"""

import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import pytest

OF_OTHERS = (
    *("hydra", "hydra.core.config_store", "markdown_it", "matplotlib.figure", "msgspec", "omegaconf"),
    *("pandas", "psutil", "rich.console", "rich.progress", "rich.table", "scipy.stats", "unittest.mock"),
)


def run(words: Sequence[str], modules: Sequence[str], output: str) -> int:
    """Fork, and do it there; the exit status."""
    pid = os.fork()
    if pid == 0:
        log = os.open(output, os.O_WRONLY | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        status = int(pytest.main([*words])) if words else 0
        for name in modules:
            import_module(name)
        sys.exit(status)  # not os._exit: the tests' temporary folders go
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    for each in OF_OTHERS:
        import_module(each)
    for line in sys.stdin:
        print(run(**json.loads(line)), flush=True)
