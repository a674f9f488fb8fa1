"""A folder of checkpoints: the newest whole ones, and beside them what a save that was killed has left.

A checkpoint is written beside the others, listed with the sizes and sums of its files, brought to the disk,
and gets its name at once at the end. Whatever ends a save before that leaves the older ones as they were.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.errors import LaunchFailed

UNFINISHED, LIST, NAME = "unfinished", "list.json", "checkpoint-"

KEPT = 2  # how many checkpoints are kept: the newest may be damaged

_CHUNK = 1 << 20


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint consists of."""

    steps: int  # that had been taken
    bytes: int  # of all files
    sums: dict[str, str]  # BLAKE2 of each file's content, in hexadecimal, by its path in the checkpoint


def begin(folder: Path) -> Path:
    """Make room for a new checkpoint; what an unfinished one has left goes."""
    unfinished = folder / UNFINISHED
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(parents=True)
    return unfinished


def finish(folder: Path, steps: int) -> Listed:
    """Make what all ranks have written the newest checkpoint, then remove those that are not kept."""
    unfinished = folder / UNFINISHED
    paths = sorted(path for path in unfinished.rglob("*") if path.is_file())
    listed = Listed(
        steps=steps,
        bytes=sum(path.stat().st_size for path in paths),
        sums={str(path.relative_to(unfinished)): _sum(path) for path in paths},
    )
    (unfinished / LIST).write_bytes(msgspec.json.encode(listed))
    for path in (*paths, unfinished / LIST, *{path.parent for path in paths}, unfinished):
        _bring_to_disk(path)
    earlier = _by_age(folder)
    number = int(earlier[-1].name.removeprefix(NAME)) + 1 if earlier else 1
    unfinished.rename(folder / f"{NAME}{number:06d}")
    _bring_to_disk(folder)
    for old in earlier[: len(earlier) + 1 - KEPT]:
        shutil.rmtree(old)
    return listed


@contextmanager
def naming_a_full_disk(folder: Path) -> Iterator[None]:
    """Raise a `LaunchFailed` that says so, which torch does not, if there is no room left in `folder`."""
    try:
        yield
    except Exception as error:
        if shutil.disk_usage(folder).free >= _CHUNK:
            raise
        remedy = "make room, and go on from the one before"
        raise LaunchFailed("crashed", f"there is no room for a checkpoint in {folder}; {remedy}") from error


def find_newest(folder: Path) -> Path:
    """The newest finished checkpoint; `LaunchFailed` if there is none."""
    there = _by_age(folder)
    if not there:
        raise LaunchFailed("invalid", f"there is no finished checkpoint in {folder}; train from the start")
    return there[-1]


def check(path: Path) -> None:
    """Raise `LaunchFailed` if a file of a checkpoint is missing or has changed."""
    for name, written in read_list(path).sums.items():
        if not (path / name).exists():
            raise _damaged(path, f"{name} is missing")
        if _sum(path / name) != written:
            raise _damaged(path, f"the content of {name} has changed")


def read_list(path: Path) -> Listed:
    """What a checkpoint consists of; `LaunchFailed` if that cannot be read."""
    try:
        return msgspec.json.decode((path / LIST).read_bytes(), type=Listed)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, f"{LIST} cannot be read ({error})") from error


def _damaged(path: Path, damage: str) -> LaunchFailed:
    remedy = f"remove {path}, and the one before it is loaded"
    return LaunchFailed("invalid", f"the checkpoint is damaged: {damage}; {remedy}")


def _by_age(folder: Path) -> list[Path]:
    """The finished ones, the oldest first."""
    return sorted(path for path in folder.glob(f"{NAME}*") if (path / LIST).exists())


def _sum(path: Path) -> str:
    total = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total.update(chunk)
    return total.hexdigest()


def _bring_to_disk(path: Path) -> None:
    """Have the system write a file or folder out, so that a power cut takes nothing of it."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
