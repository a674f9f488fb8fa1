"""Compiles an extension's C++ sources as one: torch's headers, most of a compiler's work, are read once.

Python imports this file at its start wherever PYTHONPATH names its folder.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import setuptools  # type: ignore[import-untyped]

DEFINED_AGAIN = {"deepspeed_shm_comm_op": ("is_initialized", "world_rank", "world_size")}
"""Static names that a later source of an extension defines for itself, too."""


def unite(name: str, sources: Sequence[str]) -> list[str]:
    """Replace an extension's C++ sources by one that includes them all, beside the first; others stay."""
    united = [source for source in sources if Path(source).suffix in (".cc", ".cpp")]
    if len(united) < 2:
        return list(sources)
    whole = Path(united[0]).with_name("united.cpp")
    whole.write_text("\n".join(include_all(united, whole.parent, DEFINED_AGAIN.get(name.split(".")[-1], ()))))
    return [str(whole), *(source for source in sources if source not in united)]


def include_all(sources: Sequence[str], folder: Path, defined_again: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a file in this folder that includes these; what is defined again is renamed."""
    for number, source in enumerate(sources):
        renamed = defined_again if number else ()
        yield from (f"#define {name} {name}_{number}" for name in renamed)
        yield f'#include "{os.path.relpath(source, folder)}"'
        yield from (f"#undef {name}" for name in renamed)
    yield ""


_initialise = setuptools.Extension.__init__


def _initialise_united(
    self: setuptools.Extension, name: str, sources: Sequence[str], *more: Any, **named: Any
) -> None:
    _initialise(self, name, unite(name, sources), *more, **named)


setuptools.Extension.__init__ = _initialise_united
