"""Compiles an extension's C++ sources as one: torch's headers, most of a compiler's work, are read once.

Python imports this file at its start wherever PYTHONPATH names its folder.
"""

from pathlib import Path
from typing import Any

import setuptools  # type: ignore[import-untyped]

DEFINED_AGAIN = {"deepspeed_shm_comm_op": ("is_initialized", "world_rank", "world_size")}
"""Static names that a later source of an extension defines for itself, too."""


class United(setuptools.Extension):
    """An extension whose C++ sources, all of one folder, are included by a single one beside them."""

    def __init__(self, name: str, sources: list[str], *more: Any, **named: Any) -> None:
        united = [Path(source) for source in sources if source.endswith((".cc", ".cpp"))]
        if len(united) > 1:
            whole = united[0].with_name("united.cpp")
            again = [f"#define {each} {each}_again\n" for each in DEFINED_AGAIN.get(name.split(".")[-1], ())]
            first, *others = [f'#include "{source.name}"\n' for source in united]
            whole.write_text("".join([first, *again, *others]))
            sources = [str(whole), *(source for source in sources if Path(source) not in united)]
        super().__init__(name, sources, *more, **named)


setuptools.Extension = United
