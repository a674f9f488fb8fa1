"""Install packages as `pip install` with the same arguments would, by uv, in a quarter of the time.

`python bench/setup/packages.py --no-deps -r requirements/ort-cpu.txt`, into the environment of that Python.

uv reads neither pip's files nor its variables, and whoever is behind a mirror has set just these. So pip is
asked for its configuration, and uv is told the same; where uv fails all the same, pip itself installs.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys

PIP = (sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check")
UV = (sys.executable, "-m", "uv", "--no-progress")

VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX",),
    "extra-index-url": ("UV_INDEX",),
    "find-links": ("UV_FIND_LINKS",),
    "no-index": ("UV_NO_INDEX",),
    "constraint": ("UV_CONSTRAINT", "UV_BUILD_CONSTRAINT"),
    "trusted-host": ("UV_INSECURE_HOST",),
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "proxy": ("HTTP_PROXY", "HTTPS_PROXY"),
    "default-timeout": ("UV_HTTP_TIMEOUT",),
    "timeout": ("UV_HTTP_TIMEOUT",),
}
"""What uv calls the options of pip that say where packages come from."""
COMMAS = ("UV_FIND_LINKS",)
"""Lists that uv separates by commas, where pip has white space."""
DEFAULTS = {
    "UV_INDEX_STRATEGY": "unsafe-best-match",  # pip, too, takes the best version of all indexes
    "UV_SYSTEM_CERTS": "true",  # as pip does since 24.2
    "UV_NO_CONFIG": "true",  # a uv.toml says nothing to pip
}


def options_of_pip(listed: str) -> dict[str, str]:
    """Return pip's options for `install` out of what `pip config list` prints, the strongest source of each.

    Args:
        listed: lines such as `global.find-links='/wheels'`; pip has settled which file wins.
    """
    strength = {"global": 0, "install": 1, ":env:": 2}
    options: dict[str, tuple[int, str]] = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in strength and strength[section] >= options.get(option, (0, ""))[0]:
            options[option] = (strength[section], str(ast.literal_eval(value)))
    return {option: value for option, (_, value) in options.items()}


def variables_for_uv(options: dict[str, str]) -> dict[str, str]:
    """Return the environment variables that tell uv what these options tell pip."""
    variables = dict(DEFAULTS)
    for option, value in options.items():
        for name in VARIABLES.get(option, ()):
            variables[name] = (",".join if name in COMMAS else " ".join)(value.split())
    return variables


def uv(arguments: list[str]) -> int:
    """Install by uv and return its exit status; 1 if pip does not say how it is set up."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False)
    try:
        variables = variables_for_uv(options_of_pip(listed.stdout))
    except (SyntaxError, ValueError):
        print(f"not understood in pip's configuration:\n{listed.stdout}", flush=True)
        return 1
    # What is set for uv itself was set for a reason.
    environ = {**variables, **os.environ}
    command = [*UV, "pip", "install", "--python", sys.executable, "--compile-bytecode", *arguments]
    return subprocess.run(command, env=environ, check=False).returncode


def main(arguments: list[str]) -> int:
    """Install what the arguments of `pip install` say and return the exit status."""
    if uv(arguments) == 0:
        return 0
    print("uv could not install it; pip does", flush=True)
    return subprocess.run([*PIP, "install", "--progress-bar=off", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
