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

from bench.errors import LONGEST_MESSAGE, LaunchFailed
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
    """Run `python -m MODULE PARENT FOLDER ARGUMENT …`, which calls `answer_parent`, and wait for its answer.

    It answers with a tagged struct in `folder`.

    Raises:
        LaunchFailed: it failed, with its reason.
    """
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
    """Write down what was trained and have it exported.

    Args:
        folder: where the exported model, its inputs and its outputs go.
        spec: what was trained; the weights that it began with are still there.
        save_file: of safetensors, for arrays or for tensors.
        trained: weights and buffers by their names in the model; the others are as they were.
        batch: a micro-batch, for the inputs.

    Raises:
        LaunchFailed: status `unsupported`, if the exporter cannot do it.
    """
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

    Args:
        compute: gets the paths of the command line, the first of them the folder for the answer.
        refusal: the beginning of what is said of an error that tells of nothing else.
    """
    die_with(int(sys.argv[1]))
    paths = [Path(argument) for argument in sys.argv[2:]]
    try:
        answer = compute(*paths)
    except OSError:
        raise  # such as a full disk, whose message names the file
    except Exception as error:
        traceback.print_exc()
        answer = _describe(error, refusal)
    (paths[0] / ANSWER).write_bytes(msgspec.json.encode(answer))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # ONNX Runtime's blocks complain when an interpreter ends


def _describe(error: Exception, refusal: str) -> Failed:
    if isinstance(error, LaunchFailed):
        return Failed(error.status, error.message, error.details)
    line = in_a_line(error)
    if is_out_of_memory(error):
        return Failed("oom", line, traceback.format_exc())
    return Failed("unsupported", f"{refusal}: {line}", traceback.format_exc())


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that there is no memory left, on the host or on a device."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or tells_of_memory(str(error))


_BEFORE_REASON = re.compile(
    r".*/onnxruntime_src/.*?(?:\[ONNXRuntimeError\] : \d+ : |(?=\S+ \S+ \S+ was false\.\s*$)|was false\. )",
    re.DOTALL,
)
"""A source file of ONNX Runtime's and a C++ signature: they stand before the reason and are longer.

Some conditions have no reason; then the condition stays.
"""


def in_a_line(error: Exception) -> str:
    """An error's class and words; of a whole traceback, as ORTModule makes them, the line that matters."""
    words = _BEFORE_REASON.sub("", str(error), count=1).strip()
    if len(words) > LONGEST_MESSAGE:
        words = last_error(words) or words.strip().splitlines()[0]
    return f"{type(error).__name__}: {words}"
