"""What an exception means for a backend: its status, and a line for its row."""

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import LONGEST_MESSAGE, LaunchFailed, UserError
from bench.launch.fate import last_error, tells_of_memory

LONGEST_REASON = 150  # characters of an error of the user's code in a sentence, so that its remedy has room


def status_of(error: Exception) -> str | None:
    """The status that an error means under every engine; None if it depends on the engine."""
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
"""A source file of ONNX Runtime and a C++ signature: they precede the reason and are longer than it.

If a failed condition comes without a reason, the condition stays.
"""


LOST_REDUCTION = "Expected to have finished reduction in the prior iteration"
"""DistributedDataParallel's words for it; the advice it adds is a setting of DDP, not of ours."""


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


@contextmanager
def naming_failure(what: str, remedy: str = "") -> Iterator[None]:
    """Make a `UserError` of any error, which says in a line what failed and, by default, where."""
    try:
        yield
    except Exception as error:
        if status_of(error):  # it says all itself, or memory ran out
            raise
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not re.search(r"site-packages|<frozen|/bench/", frame.filename)]
        place = f"{Path(own[-1].filename).name}, line {own[-1].lineno}" if own else "it"
        reason = in_a_line(error)
        short = reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 1]}…"
        raise UserError(f"{what}: {short.rstrip('.')}", remedy or f"correct {place}") from error
