"""Explains why a process ended or does not answer, from its exit status, its log and kernel counters."""

import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bench.errors import LaunchFailed

VMSTAT = Path("/proc/vmstat")
CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")

OUT_OF_MEMORY = (
    "can't allocate memory",
    "cannot allocate memory",
    "failed to allocate memory",
    "out of memory",
    "alloc_failed",
    r"not_initialized.*(cublas|cudnn)create|(cublas|cudnn)create.*not_initialized",  # no memory for a handle
    "bad_alloc",
    "memoryerror",
    "failed to map segment from shared object",  # the dynamic loader under a memory limit
    "can't start new thread",  # no memory for its stack
    "resource temporarily unavailable",  # the same in C++
    "could not create a primitive(?! desc)",  # oneDNN; no descriptor means no such operation
)
"""How torch, ONNX Runtime, Python, CUDA, cuBLAS, oneDNN, C++ and the loader say it: lower-case patterns."""


def tells_of_memory(text: str) -> bool:
    """Whether an error's words, or a log's, say that there was not enough memory."""
    lower = text.lower()
    return any(re.search(sign, lower) for sign in OUT_OF_MEMORY)


def last_error(log: str) -> str:
    """The last line of a log that reads like Python's or C++'s last line about an error.

    All ranks write to one log; errors of ranks that only lost another rank are passed over.
    """
    lines = [line.strip() for line in log.splitlines() if _ERROR.match(line.strip())]
    causes = [line for line in lines if not any(words in line for words in LOST_ANOTHER)]
    return causes[-1] if causes else ""


LOST_ANOTHER = ("Connection reset by peer", "Connection closed by peer", "Broken pipe")
"""How gloo and NCCL say that another rank has gone."""

_ERROR = re.compile(r"(?:[\w.]+(?:Error|Exception)\b|what\(\)|Fatal Python error):? ?")


def describe_exit(exit_status: int) -> str:
    """An exit status as `subprocess` gives it: below 0 the signal that killed the process, 0 unknown."""
    if exit_status == 0:
        return "ended without a word"
    if exit_status > 0:
        return f"ended with status {exit_status}"
    try:
        return f"was killed by {signal.Signals(-exit_status).name}"
    except ValueError:
        return f"was killed by signal {-exit_status}"


def explain(
    action: str,
    *,
    reported: Sequence[LaunchFailed],
    silent: Sequence[int],
    exits: Mapping[int, int],
    agent: int | None,
    log: str,
    oom_killer: bool,
    torchrun: str = "torchrun",
) -> LaunchFailed:
    """What became of a group in which a rank ended without a word.

    Where one was killed, the others `reported` only that they lost it. `exits` are, by rank, the statuses of
    those that failed by themselves, as far as torchrun says, and `agent` its own, None if it still runs.
    """
    # torchrun ends the others by SIGTERM, and newer versions list that as a failure, too.
    exits = {rank: status for rank, status in exits.items() if status != -signal.SIGTERM} or exits
    killed = [rank for rank, status in exits.items() if status < 0]
    if not exits and agent is not None and agent != 0:
        culprit, status = torchrun, agent
    elif killed or not reported:
        rank = min(killed or exits or silent or [0])
        culprit, status = f"rank {rank}", exits.get(rank, 0)
    else:  # the others were ended by torchrun, because of the one that reported
        return reported[0]
    sentence = f"{culprit} {describe_exit(status)} during {action}"
    if -status in (signal.SIGKILL, signal.SIGTERM):  # from outside: the log shows only the consequences
        if oom_killer and -status == signal.SIGKILL:
            return LaunchFailed(
                "oom", f"{sentence}: memory was used up and the kernel chose it (OOM killer)", log
            )
        return LaunchFailed("crashed", sentence, log)
    error_line = last_error(log)
    return LaunchFailed(
        "oom" if tells_of_memory(log) else "crashed",
        f"{sentence}: {error_line}" if error_line else sentence,
        log,
    )


def oom_kills() -> int | None:
    """How many processes the kernel has killed so far for want of memory; None if it does not say.

    It counts this control group's where the kernel has such a counter, else the whole machine's.
    psutil does not read these counters.
    """
    with suppress(OSError, StopIteration):
        own = next(line[4:] for line in CGROUP.read_text().splitlines() if line.startswith("0::/"))
        return _oom_kills(CGROUPS / own / "memory.events")
    with suppress(OSError, StopIteration):
        return _oom_kills(VMSTAT)
    return None


def _oom_kills(path: Path) -> int:
    return next(
        int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith("oom_kill ")
    )
