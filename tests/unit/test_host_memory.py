"""Memory of a process by what it is of: what training holds, and pages of files."""

import mmap
from pathlib import Path

import pytest

from bench.machine.telemetry.host_memory import HostMemory, anonymous_peak, read_host_memory, reset_host_peak

SIZE = 64 << 20
PAGE = 4096


@pytest.mark.parametrize(
    ("before", "after", "peak"),
    [
        (HostMemory(500, 300, 200), HostMemory(600, 350, 200), 400),  # the files' pages stay: exact
        (HostMemory(500, 300, 200), HostMemory(700, 420, 280), 420),  # they grow, as in the first step
        (HostMemory(500, 300, 200), HostMemory(500, 300, 100), 300),  # the kernel has taken some away
        (HostMemory(500, 300, 200), HostMemory(900, 600, 0), 700),  # all of them
        (HostMemory(100, 90, 10), HostMemory(100, 90, 80), 90),  # never less than at either end
    ],
)
def test_the_peak_is_without_the_pages_of_files(before: HostMemory, after: HostMemory, peak: int) -> None:
    assert anonymous_peak(before, after) == peak


@pytest.mark.parametrize("text", ["", "VmHWM:\t 10 kB\n", "VmHWM:\t 10 kB\nRssAnon:\t 5 kB\n"])
def test_what_the_kernel_does_not_tell_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "status").write_text(text)
    assert read_host_memory(tmp_path / "status") is None
    assert read_host_memory(tmp_path / "gone") is None


@pytest.mark.parametrize("kind", ["kept", "freed", "shared", "of a file"])
def test_memory_of_this_process_is_counted_by_kind(tmp_path: Path, kind: str) -> None:
    if not reset_host_peak():
        pytest.skip("/proc/self/clear_refs may not be written here")
    before = read_host_memory()
    assert before is not None
    shared = mmap.MAP_SHARED if kind == "shared" else mmap.MAP_PRIVATE
    if kind == "of a file":
        path = tmp_path / "file"
        path.write_bytes(b"x" * SIZE)
        with path.open("rb") as file:
            pages = mmap.mmap(file.fileno(), SIZE, access=mmap.ACCESS_READ)
        assert sum(pages[place] for place in range(0, SIZE, PAGE)) > 0
    else:
        pages = mmap.mmap(-1, SIZE, shared | mmap.MAP_ANONYMOUS)
        for place in range(0, SIZE, PAGE):
            pages[place] = 1
    if kind == "freed":
        pages.close()
    after = read_host_memory()
    assert after is not None
    assert after.peak - before.peak > 0.9 * SIZE, "all of them are in the whole"
    grown = anonymous_peak(before, after) - before.anonymous
    assert (grown > 0.9 * SIZE) is (kind != "of a file")
    assert (after.files - before.files > 0.9 * SIZE) is (kind == "of a file")
