"""Compile something, or take it from the cache: `… bench.setup.inside.compiled --made … -- COMMAND`.

The cache lies outside of the checkout. A file in it is named by the hash of all that its content depends on,
so it serves every environment that would compile the same, and no other. A cached file must load
like a newly compiled one; otherwise it is compiled again and replaced.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import io
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from bench.setup.surroundings import cache_folder

VARIABLES = re.compile(
    r"(C|CPP|CXX|LD)FLAGS|LDSHARED|(C|C_INCLUDE_|CPLUS_INCLUDE_|LIBRARY_)PATH"
    r"|((PY)?TORCH|DS|NVCC|ONNXRUNTIME)_\w+|CUDA_(HOME|INC_PATH)|CUDNN_(HOME|PATH)"
)
"""The names of variables that change what a compiler makes."""

DIGEST_BYTES = hashlib.sha256().digest_size


def main() -> int:
    """Put what the command would make into this environment, and return the exit status."""
    parser = argparse.ArgumentParser(prog="bench.setup.inside.compiled", description=__doc__)
    parser.add_argument("--made", nargs="+", help="patterns below the environment: what the command makes")
    parser.add_argument("--packages", nargs="+", help="the installed packages whose files it depends on")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    cached = find_cached(options.packages, options.made)
    if cached and take(cached) and prove(options.made):
        return 0
    if subprocess.run(options.command, check=False).returncode or not prove(options.made):
        return 1
    if cached:
        try:
            keep(cached, options.made)
        except OSError as error:  # the next checkout compiles it again
            print(f"not put into the cache: {error}")
    return 0


def find_cached(packages: list[str], made: list[str]) -> Path | None:
    """Return the path in the cache for what this process's command makes, whether or not it exists.

    None if the user wants no cache, or if the compiler does not identify itself.
    """
    if os.environ.get("UV_NO_CACHE", "").lower() not in ("", "0", "false"):
        return None
    here = Path(__file__).parent
    # g++ and clang print their version and, option by option, what this processor has. Elsewhere than in the
    # root they would name the present folder, too.
    options = ("-march=native", "-v", "-E", "-x", "c++", os.devnull)
    compiler = subprocess.run(
        [*shlex.split(os.environ.get("CXX", "g++")), *options],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if compiler.returncode:
        return None
    depends = (
        sys.argv[1:],
        sys.version,
        os.confstr("CS_GNU_LIBC_VERSION"),
        compiler.stderr,
        sorted((name, value) for name, value in os.environ.items() if VARIABLES.fullmatch(name)),
        # They say how it is compiled, and with which compiler for CUDA.
        [file.read_text("utf-8") for file in (*sorted(here.glob("*.py")), Path("requirements/nvcc.txt"))],
        [list_content(package, made) for package in packages],
    )
    key = hashlib.sha256(repr(depends).replace(str(Path.cwd()), ".").encode()).hexdigest()
    return cache_folder() / "training-backend-bench" / "compiled" / key


def list_content(package: str, made: list[str]) -> list[str]:
    """Return the files of an installed package with their hashes, without those that the command makes."""
    record = importlib.metadata.distribution(package).read_text("RECORD") or ""
    site = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    return sorted(
        line
        for line in record.splitlines()
        # Scripts begin with the path of an environment, and the metadata say who installed it.
        if not re.match(r"\.\.|[^/]*\.dist-info/", line)
        and not any((site / line.partition(",")[0]).match(pattern) for pattern in made)
    )


def take(cached: Path) -> bool:
    """Unpack a file of the cache into this environment; returns whether it exists and is whole."""
    try:
        content = cached.read_bytes()
        digest, packed = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if hashlib.sha256(packed).digest() != digest:
            raise OSError(f"{cached} is broken")
        with zipfile.ZipFile(io.BytesIO(packed)) as files:
            for name in files.namelist():
                Path(sys.prefix, name).unlink(missing_ok=True)  # it may be a link into uv's cache
                files.extract(name, sys.prefix)
    except OSError as error:
        print(f"not taken from the cache: {error}", flush=True)
        return False
    print(f"taken from {cached}", flush=True)
    return True


def keep(cached: Path, made: list[str]) -> None:
    """Put what was made into the cache, atomically, since other processes may read or write it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as files:
        for path in (path for pattern in made for path in Path(sys.prefix).glob(pattern)):
            files.write(path, path.relative_to(sys.prefix))
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=cached.parent, delete=False) as beside:
        beside.write(hashlib.sha256(packed.getvalue()).digest() + packed.getvalue())
    Path(beside.name).replace(cached)


def prove(made: list[str]) -> bool:
    """Tell whether each library loads, in a separate process, since a broken one may end it."""
    libraries = [pattern for pattern in made if pattern.endswith(".so")]
    command = (sys.executable, "-m", "bench.setup.inside.proofs", "libraries", *libraries)
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
