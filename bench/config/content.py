"""Hashes of files' contents: the keys of everything cached that is made from them. Times are not used."""

import hashlib
import os
from pathlib import Path

from bench.machine.environment import digest

MEDIA = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".wav", ".flac", ".mp3", ".ogg")
"""Endings of image and sound files: rows hold their paths alone, and a file is read when it is used."""


def hash_file(path: Path) -> str:
    """Return the SHA-256 sum of a file, which is read in parts."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            hashed.update(part)
    return hashed.hexdigest()


def hash_files(place: Path, *, media: bool = True) -> dict[str, str | int]:
    """Return the hash of a file, or of each in a folder by its path; media count by size without `media`."""
    if place.is_file():
        return {".": hash_file(place)}
    found = (Path(folder, name) for folder, _, names in os.walk(place, followlinks=True) for name in names)
    return {
        str(path.relative_to(place)): (
            hash_file(path) if media or path.suffix.lower() not in MEDIA else path.stat().st_size
        )
        for path in sorted(found)
        if path.is_file() and not path.match("cache-*.arrow")  # which `datasets` writes there
    }


def key_of(place: str | None) -> str:
    """Return the key of rows or tokens that are made of a folder or file; empty for a hub id or nothing."""
    return digest(hash_files(Path(place), media=False)) if place and Path(place).exists() else ""
