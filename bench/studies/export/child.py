"""The process that exports: a rank must not import what it needs, so that it answers through a file."""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.errors import LaunchFailed
from bench.launch.lifeline import die_with
from bench.launch.messages import Failed
from bench.launch.spec import WorkerSpec
from bench.studies.export.messages import ModelExported
from bench.worker.rank.failing import in_a_line, status_of

ANSWER = "answer.json"

SPEC, TRAINED, BATCH = "spec.json", "trained.safetensors", "batch.safetensors"
"""What lies in the folder beside the exported model until that is done."""

EXPORTER = "bench.studies.export.exporting"


def request_export(folder: Path, spec: WorkerSpec) -> ModelExported:
    """Have what lies in the folder as `TRAINED` exported, with the inputs of `BATCH`."""
    spec.save(folder / SPEC)
    ended = subprocess.run([sys.executable, "-m", EXPORTER, str(os.getpid()), str(folder)], check=False)
    if ended.returncode != 0:
        raise LaunchFailed("crashed", f"{EXPORTER} ended with exit status {ended.returncode}")
    received = msgspec.json.decode((folder / ANSWER).read_bytes(), type=ModelExported | Failed)
    if isinstance(received, Failed):
        raise LaunchFailed(received.status, received.message, received.details)
    for name in (ANSWER, TRAINED, BATCH):
        (folder / name).unlink()
    return received


def answer_parent(export: Callable[[Path], ModelExported]) -> None:
    """Export in the folder of the command line, and write down what came of it, or a failure."""
    die_with(int(sys.argv[1]))
    folder = Path(sys.argv[2])
    answer: ModelExported | Failed
    try:
        answer = export(folder)
    except OSError:
        raise  # such as a full disk, whose message names the file
    except Exception as error:
        traceback.print_exc()
        status, line = status_of(error), in_a_line(error)
        message = line if status else f"it cannot be exported: {line}"
        answer = Failed(status or "unsupported", message, traceback.format_exc())
    (folder / ANSWER).write_bytes(msgspec.json.encode(answer))
