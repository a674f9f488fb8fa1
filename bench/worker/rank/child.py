"""Work in a process of its own, for what a rank must not import: it answers through a file."""

import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

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

T = TypeVar("T")


def ask_child(module: str, folder: Path, answer: type[T], *arguments: Path) -> T:
    """Run `python -m MODULE PARENT FOLDER ARGUMENT …`, which calls `answer_parent`; return its answer."""
    command = [sys.executable, "-m", module, str(os.getpid()), str(folder), *map(str, arguments)]
    ended = subprocess.run(command, check=False)
    if ended.returncode != 0:
        raise LaunchFailed("crashed", f"{module} ended with exit status {ended.returncode}")
    answers: Any = answer | Failed
    received = msgspec.json.decode((folder / ANSWER).read_bytes(), type=answers)
    (folder / ANSWER).unlink()
    if isinstance(received, Failed):
        raise LaunchFailed(received.status, received.message, received.details)
    return received


def request_export(
    folder: Path,
    spec: WorkerSpec,
    save_file: Callable[[dict[str, Any], Path], None],
    *,
    trained: Mapping[str, Any],
    batch: Mapping[str, Any],
) -> ModelExported:
    """Write down what was trained, by its names in the model, and have it exported with a batch's inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(folder / SPEC)
    save_file(dict(trained), folder / TRAINED)
    save_file(dict(batch), folder / BATCH)
    exported = ask_child(EXPORTER, folder, ModelExported)
    for name in (TRAINED, BATCH):
        (folder / name).unlink()
    return exported


def answer_parent(compute: Callable[..., object], *, refusal: str) -> NoReturn:
    """Compute what the parent has asked for, write that or a failure down, and end the process.

    `compute` gets the paths of the command line, the first of them the folder for the answer. A `refusal`
    begins the sentence about an error that tells of nothing else.
    """
    die_with(int(sys.argv[1]))
    paths = [Path(argument) for argument in sys.argv[2:]]
    try:
        answer = compute(*paths)
    except OSError:
        raise  # such as a full disk, whose message names the file
    except Exception as error:
        traceback.print_exc()
        status, line = status_of(error), in_a_line(error)
        message = line if status else f"{refusal}: {line}"
        answer = Failed(status or "unsupported", message, traceback.format_exc())
    (paths[0] / ANSWER).write_bytes(msgspec.json.encode(answer))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # ONNX Runtime's blocks complain when an interpreter ends


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
