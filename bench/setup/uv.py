"""Run uv with the settings of pip: `python -m bench.setup.uv pip install …`.

uv takes a minute for the packages of a stack, some GB, and pip five. It ignores pip's settings, by
which a machine names its mirror, its folder of wheels or its certificates, so they are translated here.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", ""),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "timeout": ("UV_HTTP_TIMEOUT", ""),
    "default-timeout": ("UV_HTTP_TIMEOUT", ""),
    "cert": ("SSL_CERT_FILE", ""),
    "proxy": ("ALL_PROXY", ""),
}
"""The variable of uv for each setting of pip that says where packages come from, and what stands between its
values; nothing where it takes a single one."""

LIKE_PIP = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_SYSTEM_CERTS": "true"}
"""The newest version of all indexes is taken, and the system's certificates count, as pip does."""

PRINT_DEFAULT_INDEX = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
"""What pip's Python prints the address of pip's own index by; pip has no command for it."""


def translate(listing: str, environ: Mapping[str, str], default_index: str) -> dict[str, str]:
    """Return the variables for uv that say what `pip config list` printed of pip's settings.

    Of a version that several indexes have, pip takes the best wheel and uv looks into the first index only,
    its default one being the last. So pip's own index, which has the wheels of all platforms, is put first.
    What stands later counts more: first the files, then the variables of the environment (`:env:`); one of uv
    that stands in `environ` already is left as it is.
    """
    variables = dict(LIKE_PIP)
    for section in ("global", "install", ":env:"):
        for line in listing.splitlines():
            name, _, value = line.partition("=")
            where, _, setting = name.rpartition(".")
            if where == section and setting in VARIABLES:
                variable, separator = VARIABLES[setting]
                variables[variable] = separator.join(str(ast.literal_eval(value)).split())
    own_order = not {"UV_INDEX", "UV_DEFAULT_INDEX"} & environ.keys()
    if "UV_INDEX" in variables and own_order:
        *earlier, last = variables["UV_INDEX"].split()
        first = variables.get("UV_DEFAULT_INDEX", default_index)
        variables.update(UV_INDEX=" ".join([first, *earlier]), UV_DEFAULT_INDEX=last)
    return {name: value for name, value in variables.items() if name not in environ}


def main() -> None:
    """Become uv, for this Python's environment, whichever the user's shell has active."""
    listing, default_index = (
        subprocess.run((sys.executable, *of_pip), stdout=subprocess.PIPE, check=True, text=True).stdout
        for of_pip in (("-m", "pip", "config", "list"), ("-c", PRINT_DEFAULT_INDEX))
    )
    uv = str(Path(sys.executable).with_name("uv"))
    settings = translate(listing, os.environ, default_index.strip())
    environment = ("--python", sys.executable) if sys.argv[1] == "pip" else ()
    os.execve(uv, (uv, *sys.argv[1:], *environment), {**os.environ, **settings})


if __name__ == "__main__":
    main()
