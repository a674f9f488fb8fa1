"""Has a finished comparison logged by a process of its own, since trackers' clients may hang or crash."""

import contextlib
import dataclasses
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.config.differences import format_override
from bench.config.track import Track
from bench.setup.checkout import ROOT

COMMAND = (sys.executable, "-m", "bench.tracking")


def not_logged(name: str, reason: str, csv: Path) -> str:
    """The sentence that says why a tracker has not got a comparison."""
    kept, again = f"which are kept in {csv}", f"python -m bench.tracking {shlex.quote(str(csv))}"
    again = f"put it right and run `{again}` with the same track=…, which measures nothing"
    return f"{name} did not get the results ({reason}), {kept}; {again}."


def settings_of(track: Track) -> list[str]:
    """The overrides that choose these trackers and set them."""
    chosen = {name: dataclasses.asdict(getattr(track, name)) for name in track.names}
    settings = {f"track.{name}.{key}": value for name, of in chosen.items() for key, value in of.items()}
    settings = {"track": track.names, "track.folder": track.folder} | settings
    return [format_override(key, value) for key, value in settings.items()]


def track(csv: Path, settings: Track, say: Callable[[str], object]) -> list[str]:
    """Log a finished comparison, by its results file, to the trackers that are wanted; say where it went.

    Returns a sentence for each tracker that has not got it. Raises nothing that a tracker may cause: the
    results are written already and must not be lost.
    """
    names, ended = settings.names, ""
    if not names:
        return []
    words = [*COMMAND, str(csv), *settings_of(settings)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True, env=variables)
        try:
            ended = f"its process ended with {process.wait(settings.timeout_s)}"
        except subprocess.TimeoutExpired:
            ended = f"it took longer than track.timeout_s={settings.timeout_s:g}"
        finally:
            with contextlib.suppress(ProcessLookupError):  # helpers that a client has left behind
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()
    ended = ": ".join([ended, *lines[-1:]]) if process.returncode > 0 else ended
    failed = []
    for name in names:
        said = [line for line in lines if line.startswith((f"logged to {name}: ", f"{name} did not get"))]
        if said and said[0].startswith("logged"):
            say(said[0])
        else:
            failed += said or [not_logged(name, ended, csv)]
    return failed
