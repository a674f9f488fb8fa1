"""Has a finished comparison logged by a process of its own, and says what became of it."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.config.track import Track
from bench.setup.checkout import ROOT

COMMAND = (sys.executable, "-m", "bench.tracking.process")

Answer = tuple[dict[str, str], dict[str, str]]
"""What the process that logs answers in JSON: by tracker, where it went, and why another failed."""


@dataclass(frozen=True, kw_only=True)
class TrackOutcome:
    """Sentences: one for each tracker that has the comparison, and one for each that has not."""

    logged: Sequence[str] = ()
    failed: Sequence[str] = ()


def track(csv: Path, settings: Track, command: Sequence[str] | None = None) -> TrackOutcome:
    """Log a finished comparison, by its results file, to the trackers that are wanted.

    Raises nothing that a tracker may cause: the results are written already and must not be lost. Tests start
    another process, by `command`.
    """
    if not settings.names:
        return TrackOutcome()
    with tempfile.TemporaryDirectory(prefix="bench-tracking-") as folder:
        answer_path, log = Path(folder) / "answer.json", Path(folder) / "log"
        request = msgspec.json.encode((str(csv), settings))
        trouble = _run([*(command or COMMAND), str(answer_path)], request, log, settings.timeout_s)
        logged: dict[str, str] = {}
        failed: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):  # it was killed, perhaps in writing
            logged, failed = msgspec.json.decode(answer_path.read_bytes(), type=Answer)
    reasons = {name: failed.get(name, trouble) for name in settings.names if name not in logged}
    return TrackOutcome(
        logged=[f"logged to {name}: {place}" for name, place in logged.items()],
        failed=[
            f"{name} did not get the results ({reason or 'no answer'}), which are kept in {csv}; "
            f"put it right and run `python -m bench.tracking {shlex.quote(str(csv))}` with the same track=…, "
            "which measures nothing."
            for name, reason in reasons.items()
        ],
    )


def _run(command: Sequence[str], request: bytes, log: Path, seconds: float) -> str:
    """Run the process and everything that it starts; what went wrong, in words, or nothing."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            process.communicate(request, timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"it took longer than track.timeout_s={seconds:g}"
        finally:
            with contextlib.suppress(ProcessLookupError):  # helpers that a library has left behind
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode == 0:
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = f": {lines[-1][:300]}" if lines else ""
    return f"its process ended with {process.returncode}{last}"
