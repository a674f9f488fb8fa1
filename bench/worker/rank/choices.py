"""Imports the module of an optimizer or a loop that somebody has chosen."""

from importlib import import_module
from types import ModuleType

from bench.errors import LaunchFailed


def load_choice(kind: str, name: str) -> ModuleType:
    """Import `bench.worker.<kind>s.<name>`; the kind is `optimizer` or `loop`.

    Raises:
        LaunchFailed: status `unsupported`, if a package that it needs is missing.
    """
    try:
        return import_module(f"bench.worker.{kind}s.{name}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise LaunchFailed(
            "unsupported",
            f"{kind}={name} needs the package {package}, which this environment does not have; "
            f"install it there, or choose another {kind}",
        ) from error
