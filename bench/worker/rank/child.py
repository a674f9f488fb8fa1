"""Work in a process of its own, for what a rank must not import: it answers through a file."""

import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.errors import LONGEST_MESSAGE, LaunchFailed, UserError
from bench.launch.fate import last_error, tells_of_memory
from bench.launch.lifeline import die_with
from bench.launch.messages import Failed, ModelExported
from bench.launch.spec import WorkerSpec

ANSWER = "answer.json"

SPEC, TRAINED, BATCH = "spec.json", "trained.safetensors", "batch.safetensors"
"""What lies in the folder beside the exported model until that is done."""

EXPORTER = "bench.worker.state.exporting"


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


def status_of(error: Exception) -> str | None:
    """The status that an error means under every engine; None if only the engine can tell."""
    if isinstance(error, LaunchFailed):
        return error.status
    if isinstance(error, UserError):
        return "crashed"
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return "oom" if named or tells_of_memory(str(error)) else None


_BEFORE_REASON = re.compile(
    r".*/onnxruntime_src/.*?(?:\[ONNXRuntimeError\] : \d+ : |(?=\S+ \S+ \S+ was false\.\s*$)|was false\. )",
    re.DOTALL,
)
"""A source file of ONNX Runtime's and a C++ signature: they stand before the reason and are longer.

Some conditions have no reason; then the condition stays.
"""


LOST_REDUCTION = "Expected to have finished reduction in the prior iteration"
"""How DistributedDataParallel says it; its advice is a setting of its own."""


def in_a_line(error: Exception) -> str:
    """An error's class and words; of a whole traceback, as ORTModule makes them, the line that matters.

    What the harness itself raises is a sentence, also where a loader's worker has put a traceback before it.
    """
    if isinstance(error, LaunchFailed):
        return error.message
    if isinstance(error, UserError):
        return " ".join(str(error).rpartition(f"{UserError.__module__}.UserError: ")[2].split())
    if LOST_REDUCTION in str(error):
        return "some weights get no gradient in some batches, which ranks wait for; set device.world_size=1"
    words = _BEFORE_REASON.sub("", str(error), count=1).strip()
    if len(words) > LONGEST_MESSAGE:
        words = last_error(words) or words.strip().splitlines()[0]
    return f"{type(error).__name__}: {words}"
