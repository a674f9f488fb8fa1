"""Where results come from: a file, a folder or a git revision, and which file is compared with which."""

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from bench.errors import UserError
from bench.results import csv_files, machines

RESULTS = "results"

NAME_TWO = "name two files: python -m bench.compare BASE NEW"

NO_COMPARISONS = ("runs", "tracking")
"""Folders whose tables hold something else, or are not committed."""


@dataclass(frozen=True, kw_only=True)
class ResultsFile:
    """A results file that is not parsed yet, so that a damaged one stops no other."""

    name: str  # under which messages speak of it
    content: bytes

    def read(self) -> pd.DataFrame:
        """The rows of the file."""
        return csv_files.parse(self.content, self.name)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Results files by their place, such as `amd-family25-model1-2-cores-8b86/bench/bert-mini-cpux2`."""

    name: str  # under which messages speak of it
    files: Mapping[str, ResultsFile]
    under: str = ""  # how all places begin, where it is a part of the results of all machines
    single: bool = False  # it is one file that was named itself, so that its place need not match


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """What is compared with what, and what only one source has."""

    pairs: Sequence[tuple[str, ResultsFile, ResultsFile]]  # a title, and the files of base and new
    new: Mapping[str, ResultsFile] = field(default_factory=dict)  # by place, what base does not have
    missing: Sequence[str] = field(default_factory=tuple)  # the places that new does not have
    unchanged: int = 0  # how many files are the same on both sides


def pair_files(base: Source, new: Source) -> Pairing:
    """Pair the files of two sources by their places; two single files are a pair whatever their names.

    UserError if nothing of them belongs together.
    """
    if base.single and new.single:
        (old,), (now,) = base.files.values(), new.files.values()
        return Pairing(pairs=[(f"{base.name}, then {new.name}", old, now)])
    both = [place for place in new.files if place in base.files]
    changed = [place for place in both if base.files[place].content != new.files[place].content]
    pairing = Pairing(
        pairs=[(place, base.files[place], new.files[place]) for place in changed],
        new={
            place: file
            for place, file in new.files.items()
            if place not in base.files and place.startswith(base.under) and not base.single
        },
        missing=[
            place
            for place in base.files
            if place not in new.files and place.startswith(new.under) and not new.single
        ],
        unchanged=len(both) - len(changed),
    )
    if not (both or pairing.new or pairing.missing):
        raise UserError(
            f"{base.name} and {new.name} have no file of the same machine, folder and name",
            f"choose folders of one machine and study, or {NAME_TWO}",
        )
    return pairing


def find_source(given: str, folder: str = RESULTS) -> Source:
    """The results files under a name: of a file, a folder or a git revision, which has them in `folder`."""
    path = Path(given)
    if path.is_dir():
        return folder_source(path, given)
    if path.exists() or path.suffix == ".csv":
        file = ResultsFile(name=given, content=csv_files.read_content(path))
        return Source(name=path.name, files={_under(path.parent) + path.stem: file}, single=True)
    if _exists(f"{given}^{{commit}}"):
        return revision_source(given, folder)
    raise UserError(f"{given} is no file, no folder and no git revision; check the path, or `git log`")


def folder_source(folder: Path, name: str) -> Source:
    """Every results file in a folder and in those inside; UserError if there is none."""
    places = [path.relative_to(folder) for path in sorted(folder.rglob("*.csv"))]
    contents = {
        place: (str(folder / place), csv_files.read_content(folder / place))
        for place in places
        if _holds_comparison(place)
    }
    if not contents:
        raise UserError(f"{folder} holds no results file", "measure with `make bench` first")
    return _source(name, folder, contents)


def revision_source(name: str, folder: str = RESULTS) -> Source:
    """Every results file of a git revision in a folder, which is relative to the present one."""
    start = os.path.relpath(folder)
    tree = f"{name}:./{start}"
    contents: dict[Path, tuple[str, bytes]] = {}
    if _exists(tree):
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", tree))) as archive:
            for member in archive:
                place, file = Path(member.name), archive.extractfile(member)
                if file and place.suffix == ".csv" and _holds_comparison(place):
                    contents[place] = f"{name}:{start}/{member.name}", file.read()
    return _source(name, Path(folder), contents)


def _source(name: str, folder: Path, contents: Mapping[Path, tuple[str, bytes]]) -> Source:
    """Return the source of the results in a folder; by place in it, each file's name and content."""
    under = _under(folder)
    files = {
        under + place.with_suffix("").as_posix(): ResultsFile(name=file_name, content=content)
        for place, (file_name, content) in contents.items()
    }
    return Source(name=name, files=files, under=under)


def last_commit_source(folder: str = RESULTS) -> Source:
    """The results of HEAD; none before the first commit."""
    _git("rev-parse", "--git-dir")
    return revision_source("HEAD", folder)


def _under(folder: Path) -> str:
    """How the places of a folder's files begin: with its machine and what is inside, if it is a machine's."""
    folder = folder.resolve()
    for above in (folder, *folder.parents):
        if (above / machines.FILE).exists():
            return f"{folder.relative_to(above.parent).as_posix()}/"
    return ""


def _holds_comparison(place: Path) -> bool:
    """Whether the place is that of a comparison; files beside a comparison have a dot in their names."""
    return "." not in place.stem and not set(NO_COMPARISONS) & set(place.parts[:-1])


def _exists(object_name: str) -> bool:
    try:
        _git("rev-parse", "--quiet", "--verify", "--end-of-options", object_name)
    except UserError:
        return False
    return True


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise UserError(f"git is not installed; install it, or {NAME_TWO}") from None
    except (OSError, subprocess.CalledProcessError):
        raise UserError(f"`git {' '.join(arguments)}` failed; run in a git checkout, or {NAME_TWO}") from None
