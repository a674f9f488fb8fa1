"""Identifies the harness's own code: its commit in git, and a hash of what can change a measurement."""

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

from bench.setup.checkout import ROOT

CODE = ("bench", "conf", "requirements", "pyproject.toml")
"""What decides how a comparison is measured; results/, reports/, tests and the README do not."""

SOURCES = (".py", ".c", ".yaml", ".txt", ".toml")
"""Endings of the files that are hashed."""

_ONLY_READ_ROWS = (
    "bench/analysis/attribution.py",
    "bench/analysis/claim",
    "bench/analysis/clusters.py",
    "bench/analysis/comparison_results.py",
    "bench/analysis/fairness.py",
    "bench/analysis/reference/",
    "bench/analysis/selftest.py",
    "bench/analysis/shapley.py",
    "bench/analysis/steadiness.py",
    "bench/compare/",
    "bench/doctor/",
    "bench/report/",
    "bench/selfcheck/",
)

NOT_HASHED = (
    *("conf/", "pyproject.toml"),  # the resolved configuration and the packages have hashes of their own
    *_ONLY_READ_ROWS,
)
"""Beginnings of files of `CODE` that cannot change a measurement unnoticed."""


def git_commit() -> str:
    """The checkout's commit, with `-dirty` if the harness's code differs from it; `unknown` without git.

    A file of the harness that git does not know of, such as somebody's own engine, is a difference, too.
    """
    commit = _git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    return f"{commit}-dirty" if _git("status", "--porcelain", "-unormal", "--", *CODE) else commit


def code_hash() -> str:
    """A hash of the harness's own source files, whether git knows of them or not."""
    hashed = hashlib.sha256()
    for path in sorted(_sources()):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(NOT_HASHED):
            continue
        hashed.update(f"{name}\0".encode())
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()[:16]


def _sources() -> Iterable[Path]:
    for name in CODE:
        paths = (ROOT / name).rglob("*") if (ROOT / name).is_dir() else (ROOT / name,)
        yield from (path for path in paths if path.suffix in SOURCES and path.is_file())


def _git(*arguments: str) -> str:
    """What git prints; empty if it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
