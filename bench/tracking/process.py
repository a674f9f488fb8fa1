"""The process that logs one comparison: results file and settings on its standard input, an answer in a file.

Only here the trackers' libraries are imported. They start threads and processes, install handlers of exits
and signals, and may hang or crash. The coordinator, which goes on to measure the next comparison, has none of
that.
"""

import importlib
import os
import sys
import tempfile
from pathlib import Path

import msgspec

from bench.config.track import Track
from bench.report.content.collection import read_comparison
from bench.tracking.content import content_of
from bench.tracking.track import Answer

QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_SILENT": "true",
    "DO_NOT_TRACK": "1",
}
"""Environment variables with which the libraries send nothing of their own accord."""


def main() -> None:
    """Log to every tracker; one that fails stops no other. The answer is brought up to date after each."""
    os.environ.update(QUIET)
    csv, track = msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[str, Track])
    answer: Answer = {}, {}
    logged, failed = answer
    folder = Path(track.folder)
    with tempfile.TemporaryDirectory(prefix="bench-tracking-") as temporary:
        content = content_of(read_comparison(Path(csv)), Path(temporary))
        for name in track.names:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                tracker = importlib.import_module(f"bench.tracking.{name}_tracker")
                logged[name] = tracker.log(content, getattr(track, name), folder)
            except (Exception, SystemExit) as error:  # whatever a library raises
                failed[name] = _words(error)
            Path(sys.argv[1]).write_bytes(msgspec.json.encode(answer))


def _words(error: BaseException) -> str:
    """The first line of what a library says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # everything is written: what a library still does at exit must not keep anybody waiting
