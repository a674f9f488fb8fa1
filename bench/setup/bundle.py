"""Pack a checkout for machines without a network: `make bundle`.

The archive holds a clone of the last commit, a Python that uv brings, and the environment that the set-up
makes with it. Nothing in it depends on where it is unpacked; what was compiled needs this machine's
instruction sets, and an x86-64 Linux with its C library or a newer one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from bench.errors import UserError
from bench.setup.checkout import ROOT
from bench.setup.interpreter import bring_python
from bench.setup.recipes import Stack

NAME = "training-backend-bench"  # of the folder that unpacking makes
PYTHONS = ".python"  # of the folder in it that holds Python
MIB = 2**20
CHECKSUMS = "SHA256SUMS"


def make_bundle(stack: Stack, device: str, folder: Path, piece_mib: int) -> list[Path]:
    """Write the archive below `folder` and return its pieces, each of at most `piece_mib` MiB."""
    checkout = folder / NAME
    shutil.rmtree(checkout, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    _run(("git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), str(checkout)), ROOT)
    # uv keeps the environment's Python in it then, and not in a home that the other machine lacks.
    python, _ = bring_python(stack.pythons[device], str(checkout / PYTHONS))
    _run((python, "-m", "bench.setup", "--stack", stack.name, "--device", device), checkout)
    pieces = pack(checkout, piece_mib * MIB)
    print(f"There: cat {NAME}.tar.gz.* | tar xz && cd {NAME} && make bench (sha256sum -c {CHECKSUMS} checks)")
    return pieces


def pack(checkout: Path, piece_bytes: int) -> list[Path]:
    """Pack a folder into pieces beside it, with their checksums, and return the pieces."""
    began, archive, folder = time.monotonic(), f"{checkout.name}.tar.gz", checkout.parent
    for old in folder.glob(f"{archive}.*"):
        old.unlink()
    print("tar, gzip and split pack it, some minutes ...", flush=True)
    script = 'tar --create "$0" | gzip -1 | split --bytes="$1" --numeric-suffixes --suffix-length=3 - "$2."'
    words = (checkout.name, str(piece_bytes), archive, CHECKSUMS)
    _run(("bash", "-o", "pipefail", "-ec", f'{script}; sha256sum "$2".* > "$3"', *words), folder)
    pieces = sorted(folder.glob(f"{archive}.*"))
    mib = sum(piece.stat().st_size for piece in pieces) / MIB
    print(f"{len(pieces)} pieces, {mib:,.0f} MiB, after {time.monotonic() - began:.0f} s: {folder}")
    return pieces


def _run(command: tuple[str, ...], folder: Path) -> None:
    """Run a command whose output is the user's to see; UserError if it fails."""
    try:
        done = subprocess.run(command, cwd=folder, env=os.environ, check=False)
    except FileNotFoundError:
        raise UserError(f"{command[0]} is not installed", "install it, and call make bundle again") from None
    if done.returncode:
        raise UserError(
            f"`{' '.join(command[:2])}` ended with status {done.returncode}", "see the lines above"
        )
