"""Identifies the harness's own code: its commit in git, and a hash of what can change a measurement."""

import hashlib
import subprocess

from bench.setup.checkout import ROOT

CODE = ("bench", "conf", "requirements", "pyproject.toml")
"""What differs from the commit if it is changed; results/, reports/, tests and the README do not count."""

SOURCES = (".py", ".c", ".yaml", ".txt", ".toml")  # endings of the files that are hashed

MEASURING = (
    *("bench/config", "bench/errors.py", "bench/launch", "bench/machine", "bench/measure", "bench/results"),
    *(f"bench/plugins/{name}" for name in ("cluster", "hf", "python_docs", "user_model")),
    *("bench/setup", "bench/statistics", "bench/study.py", "bench/worker", "requirements"),
)
"""What can change a measurement unnoticed, and is hashed. By a test it imports nothing else of `bench`.
The resolved configuration and the installed packages have separate hashes."""

OF_STUDIES = ("ranks.py", "settings.py", "stage.py", "watch.py")
"""A study that has any of these takes part in measuring."""


def git_commit() -> str:
    """The checkout's commit, `-dirty` if code, untracked files included, differs; `unknown` without git."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    return f"{commit}-dirty" if _git("status", "--porcelain", "-unormal", "--", *CODE) else commit


def code_hash() -> str:
    """A hash of the source files that measure, studies' included, whether git knows of them or not."""
    hashed = hashlib.sha256()
    parts = [part for name in OF_STUDIES for part in ROOT.glob(f"bench/studies/*/{name}")]
    folders = [*(ROOT / name for name in MEASURING), *(part.parent for part in parts)]
    paths = {path for folder in folders for path in (folder, *folder.rglob("*"))}
    for path in sorted(path for path in paths if path.suffix in SOURCES and path.is_file()):
        hashed.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()[:16]


def _git(*arguments: str) -> str:
    """What git prints; empty if it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
