"""The pages of memory that a process has in use, and how a fork of it comes to have the same.

A fork maps the pages of library files only when it reads them again: it would seem to need 300 MiB less, and
would map most of them while it trains. And it shares all memory written before the fork with its siblings.
That costs time: a kernel that searches for unused memory (DAMON) visits each process that maps a page, on a
core that trains; and a write to a shared page waits for its copy.
"""

import ctypes
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PRESENT = re.compile(rb"[\x80-\xff]+")  # bit 63 of the entries of /proc/self/pagemap, by their last bytes
# linux/mman.h, since Linux 5.14; before, a rank's memory begins smaller
_POPULATE_READ, _POPULATE_WRITE = 22, 23


@dataclass(frozen=True)
class Pages:
    """Pages that follow each other."""

    address: int
    size: int  # in bytes
    written: bool  # whether they are of no file, and may be written to


def find() -> list[Pages]:
    """Those in use here, of files and of what was written; none where the kernel hides them."""
    found: list[Pages] = []
    maps, pagemap = Path("/proc/self/maps"), Path("/proc/self/pagemap")
    with suppress(OSError), maps.open() as mappings, pagemap.open("rb", buffering=0) as entries:
        for line in mappings:
            addresses, rights, _, _, inode, *_ = line.split()
            written = inode == "0" and rights == "rw-p"
            if inode != "0" or written:
                start, end = (int(address, 16) for address in addresses.split("-"))
                entries.seek(start // _PAGE * 8)
                for run in _PRESENT.finditer(entries.read((end - start) // _PAGE * 8)[7::8]):
                    size = (run.end() - run.start()) * _PAGE
                    found.append(Pages(start + run.start() * _PAGE, size, written))
    return found


def map_in(pages: list[Pages], *, copy: bool) -> None:
    """Map these pages of files into a fork of the process that found them; `copy` gives it private ones."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for each in pages:
        if copy or not each.written:
            madvise(each.address, each.size, _POPULATE_WRITE if each.written else _POPULATE_READ)
