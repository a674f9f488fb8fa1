"""Results files in a git checkout of a test's own."""

import atexit
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.results.records import Record
from tests.support.result_files import write_records

ROOT = Path(__file__).resolve().parents[2]
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(*arguments: str) -> str:
    """Run git in the present folder; what it printed."""
    command = ["git", *IDENTITY, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def copy_committed(folder: Path, *patterns: str) -> None:
    """Write this checkout's files into a folder as git knows them, even if `make bench` has replaced them."""
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, check=True, capture_output=True)
    write = ["git", "checkout-index", "-z", "--stdin", f"--prefix={folder}/"]
    subprocess.run(write, cwd=ROOT, check=True, input=listed.stdout)


def _copy_results() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="committed-")
    atexit.register(folder.cleanup)
    copy_committed(Path(folder.name), "results", "reports")
    return Path(folder.name)


COMMITTED = _copy_results()
"""Has `results` and `reports` as git knows them; `make bench` may have replaced those of this checkout."""


def write_results(stem: str, records: Iterable[Record], folder: str = "results") -> None:
    """Write a results file of the present folder's checkout."""
    write_records(Path(folder) / f"{stem}.csv", records)
