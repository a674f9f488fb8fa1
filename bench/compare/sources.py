"""Where results come from: a file, a folder or a git revision, and which file is compared with which."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pandas as pd

from bench.errors import UserError
from bench.results import csv_files

RESULTS = "results"

NAME_TWO = "name two files: python -m bench.compare BASE NEW"

Reader = Callable[[], pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Results files that are not read yet, so that a damaged one stops no other.

    Attributes:
        name: under which messages speak of it.
        files: what reads a file, by the file's stem.
        single: it is one file that was named itself, so that its stem need not match.
    """

    name: str
    files: Mapping[str, Reader]
    single: bool = False


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """What is compared with what, and what only one source has.

    Attributes:
        pairs: a title and the readers of base and new.
        new: by stem, what base does not have.
        missing: the stems that new does not have.
    """

    pairs: Sequence[tuple[str, Reader, Reader]]
    new: Mapping[str, Reader] = field(default_factory=dict)
    missing: Sequence[str] = field(default_factory=tuple)


def pair_files(base: Source, new: Source) -> Pairing:
    """Pair the files of two sources by their stems; two single files are a pair whatever their names."""
    if base.single and new.single:
        (old,), (now,) = base.files.values(), new.files.values()
        return Pairing(pairs=[(f"{base.name}, then {new.name}", old, now)])
    both = [stem for stem in new.files if stem in base.files]
    return Pairing(
        pairs=[(stem, base.files[stem], new.files[stem]) for stem in both],
        new={} if base.single else {k: read for k, read in new.files.items() if k not in base.files},
        missing=[] if new.single else [stem for stem in base.files if stem not in new.files],
    )


def find_source(given: str, folder: str = RESULTS) -> Source:
    """The results files under a name: of a file, a folder or a git revision, which has them in `folder`.

    Raises:
        UserError: it is none of them.
    """
    path = Path(given)
    if path.is_dir():
        return folder_source(path, given)
    if path.exists() or path.suffix == ".csv":
        return Source(name=path.name, files={path.stem: partial(csv_files.read, path)}, single=True)
    if _is_revision(given):
        return revision_source(given, folder)
    raise UserError(f"{given} is no file, no folder and no git revision; check the path, or `git log`")


def folder_source(path: Path, name: str) -> Source:
    """Every results file of a folder; those of folders inside are left out."""
    return Source(
        name=name, files={file.stem: partial(csv_files.read, file) for file in csv_files.list_files(path)}
    )


def revision_source(name: str, folder: str = RESULTS) -> Source:
    """Every results file of a git revision in a folder, which is relative to the present one."""
    listed = _git("ls-tree", "-z", "--name-only", name, f"{Path(folder).as_posix()}/").decode().split("\0")
    paths = [Path(line) for line in listed if line.endswith(".csv")]
    return Source(name=name, files={path.stem: partial(_read_committed, name, path) for path in paths})


def _read_committed(name: str, path: Path) -> pd.DataFrame:
    return csv_files.parse(_git("show", f"{name}:./{path.as_posix()}"), f"{name}:{path.as_posix()}")


def _is_revision(name: str) -> bool:
    try:
        _git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}")
    except UserError:
        return False
    return True


def last_commit_source(folder: str = RESULTS) -> Source:
    """The results of HEAD; none before the first commit."""
    _git("rev-parse", "--git-dir")
    return revision_source("HEAD", folder) if _is_revision("HEAD") else Source(name="HEAD", files={})


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise UserError(f"git is not installed; install it, or {NAME_TWO}") from None
    except (OSError, subprocess.CalledProcessError):
        raise UserError(f"`git {' '.join(arguments)}` failed; run in a git checkout, or {NAME_TWO}") from None
