"""Results files in a git checkout of a test's own."""

import subprocess
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


def committed(*patterns: str) -> list[Path]:
    """Files of this checkout that git knows, whatever `make bench` has left beside them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def copy_committed(folder: Path, *patterns: str) -> None:
    """Write this checkout's files into a folder as git knows them, even if `make bench` has replaced them."""
    names = "\0".join(str(path.relative_to(ROOT)) for path in committed(*patterns))
    write = ["git", "checkout-index", "-z", "--stdin", f"--prefix={folder}/"]
    subprocess.run(write, cwd=ROOT, check=True, input=names, text=True)


def write_results(stem: str, records: Iterable[Record], folder: str = "results") -> None:
    """Write a results file of the present folder's checkout."""
    write_records(Path(folder) / f"{stem}.csv", records)
