"""The pages of libraries' files that a process has in use: a fork has none of them before it reads them anew.

A rank would seem to need 300 MiB less than a process that has imported all by itself, and most of it would
come back while it trains. So what is forked maps the pages in again that its parent has used.
"""

import ctypes
import os
import re
from contextlib import suppress
from pathlib import Path

Pages = list[tuple[int, int]]  # addresses, and how many bytes from there on

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PRESENT = re.compile(rb"[\x80-\xff]+")  # bit 63 of the entries of /proc/self/pagemap, by their last bytes
_MADV_POPULATE_READ = 22  # linux/mman.h, since Linux 5.14; before, a rank's memory begins smaller


def find() -> Pages:
    """Those that this process has in use; none where the kernel does not tell."""
    pages: Pages = []
    maps, pagemap = Path("/proc/self/maps"), Path("/proc/self/pagemap")
    with suppress(OSError), maps.open() as mappings, pagemap.open("rb", buffering=0) as entries:
        for line in mappings:
            addresses, _, _, _, inode, *_ = line.split()
            if inode != "0":
                start, end = (int(address, 16) for address in addresses.split("-"))
                entries.seek(start // _PAGE * 8)
                for run in _PRESENT.finditer(entries.read((end - start) // _PAGE * 8)[7::8]):
                    pages.append((start + run.start() * _PAGE, (run.end() - run.start()) * _PAGE))
    return pages


def map_in(pages: Pages) -> None:
    """Have the same in use here, in a fork of the process that found them."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for address, size in pages:
        madvise(address, size, _MADV_POPULATE_READ)
