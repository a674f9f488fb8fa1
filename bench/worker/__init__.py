"""One rank of a worker group, and the choices that it is made of: engines, optimizers, shardings, loops."""

from importlib import import_module
from types import ModuleType

from bench.errors import LaunchFailed


def load_choice(folder: str, name: str) -> ModuleType:
    """Import `bench.worker.<folder>.<name>`; `unsupported` if a package that it needs is missing."""
    try:
        return import_module(f"bench.worker.{folder}.{name}")
    except ModuleNotFoundError as error:
        package, setting = (error.name or "").partition(".")[0], folder.removesuffix("s")
        raise LaunchFailed(
            "unsupported",
            f"{setting}={name} needs the package {package}, which this environment does not have; "
            f"install it there, or choose another {setting}",
        ) from error
