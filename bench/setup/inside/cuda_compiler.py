"""Make a CUDA compiler of wheels fit the environment's torch: `… bench.setup.inside.cuda_compiler FOLDER`.

There is no nvcc among the wheels of CUDA 12, which the pinned torch is built with. So the compiler of CUDA 13
gets torch's own headers and the assembler of 12.4. Drivers of 12 run the result.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import torch

PTXAS = """#!/bin/sh
# Drivers before 580 can load what CUDA 12's assembler makes, which knows an older version of the language.
for argument; do
    case $argument in *.ptx) sed -i 's/^\\.version 9\\.0$/.version 8.4/' "$argument" ;; esac
done
exec "$(dirname "$0")/../../cuda_nvcc/bin/ptxas" "$@"
"""


def main(folder: Path) -> None:
    """Assemble the compiler that lies in this folder; its home is `nvidia/cu13` below."""
    home = folder / "nvidia" / "cu13"
    ptxas = home / "bin" / "ptxas"
    ptxas.write_text(PTXAS)
    site = Path(torch.__file__).parents[1]
    # Of its own headers only the one that says how compiled code is registered belongs to it.
    registering = (home / "include/crt/host_runtime.h").read_bytes()
    shutil.rmtree(home / "include")
    of_12 = [folder / "nvidia" / name / "include" for name in ("cuda_nvcc", "cuda_cccl")]
    for headers in (*of_12, *site.glob("nvidia/*/include")):
        shutil.copytree(headers, home / "include", dirs_exist_ok=True)
    (home / "include/crt/host_runtime.h").write_bytes(registering)
    [runtime] = site.glob("nvidia/*/lib/libcudart.so.*")
    (home / "lib64").mkdir()
    # Relative, since the environment may be moved.
    (home / "lib64/libcudart.so").symlink_to(os.path.relpath(runtime, home / "lib64"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
