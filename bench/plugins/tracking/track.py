"""Has a finished comparison logged by a separate process, since trackers' clients may hang or crash."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.config.differences import format_override
from bench.config.schema import Config
from bench.config.track import Track
from bench.errors import UserError
from bench.measure.plan.preflight import extra_of
from bench.setup import stacks
from bench.setup.checkout import ROOT
from bench.setup.session import session_of

COMMAND = (sys.executable, "-m", "bench.plugins.tracking")

LIBRARIES = {"mlflow": ("mlflow-skinny", "sqlalchemy", "alembic"), "wandb": ("wandb",)}
"""By tracker, the packages that it needs; the extra in pyproject.toml that installs them bears its name."""


def check(config: Config) -> None:
    """Refuse trackers whose libraries are not installed, without importing any."""
    installed = {name.lower() for name in stacks.installed_here().packages}
    for name in config.track.names:
        if missing := [package for package in LIBRARIES[name] if package not in installed]:
            raise UserError(
                f"track={name} needs {missing[0]}, which is not installed",
                f"run `{sys.executable} -m pip install '.[{name}]' "
                f"-c requirements/{extra_of(config, stacks.own())}.txt`, which leaves all that is measured "
                "as it is, or leave it out",
            )


def not_logged(name: str, reason: str, csv: Path) -> str:
    """The sentence that says why a tracker has not got a comparison."""
    again = f"`python -m bench.plugins.tracking {shlex.quote(str(csv))}` with the same track=…"
    remedy = f"put it right and run {again}, which measures nothing"
    return f"{name} did not get the results ({reason}), which are kept in {csv}; {remedy}."


def settings_of(track: Track) -> list[str]:
    """The overrides that choose these trackers and set them."""
    chosen = {name: vars(getattr(track, name)) for name in track.names}
    settings = {f"track.{name}.{key}": value for name, of in chosen.items() for key, value in of.items()}
    settings = {"track": track.names, "track.folder": track.folder} | settings
    return [format_override(key, value) for key, value in settings.items()]


def track(csv: Path, settings: Track, say: Callable[[str], object]) -> list[str]:
    """Log a finished comparison, by its results file, to the trackers that are wanted; say where it went.

    Returns a sentence for each tracker that has not got it. Raises nothing that a tracker may cause: the
    results are written already and must not be lost.
    """
    if not settings.names:
        return []
    words = [*COMMAND, str(csv), *settings_of(settings)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile() as log:
        with session_of(words, stdout=log, stderr=log, env=variables) as process:
            try:
                ended = f"its process ended with {process.wait(settings.timeout_s)}"
            except subprocess.TimeoutExpired:
                ended = f"it took longer than track.timeout_s={settings.timeout_s:g}"
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()
    ended = ": ".join([ended, *lines[-1:]]) if process.returncode > 0 else ended
    failed = []
    for name in settings.names:
        said = [line for line in lines if line.startswith((f"logged to {name}: ", f"{name} did not get"))]
        if said and said[0].startswith("logged"):
            say(said[0])
        else:
            failed += said or [not_logged(name, ended, csv)]
    return failed
