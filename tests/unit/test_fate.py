"""What became of a process: statuses, signals, logs and the kernel's counters in words."""

import signal
from pathlib import Path

import pytest

from bench.errors import LaunchFailed
from bench.launch import fate

pytestmark = pytest.mark.once

LOG = """W1120 torch/distributed/elastic: Sending process 12 closing signal SIGTERM
Traceback (most recent call last):
  File "worker.py", line 3, in <module>
ModuleNotFoundError: No module named 'torch'
E1120 torch/distributed/elastic: failed (exitcode: 1) local_rank: 0
"""


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "ended without a word"),
        (3, "ended with status 3"),
        (-signal.SIGKILL, "was killed by SIGKILL"),
        (-63, "was killed by signal 63"),
    ],
)
def test_an_exit_status_in_words(status: int, words: str) -> None:
    assert fate.describe_exit(status) == words


@pytest.mark.parametrize(
    "words",
    [
        "[enforce fail at alloc_cpu.cpp:119] DefaultCPUAllocator: can't allocate memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "OSError: [Errno 12] Cannot allocate memory",
        "MemoryError",
        "libtorch_cpu.so: failed to map segment from shared object",
        "RuntimeError: could not create a primitive",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "CUDNN failure 1: CUDNN_STATUS_NOT_INITIALIZED ; GPU=0 ; expr=cudnnCreate(&cudnn_handle_)",
    ],
)
def test_words_that_tell_of_memory(words: str) -> None:
    assert fate.tells_of_memory(words)


def test_other_words_do_not() -> None:
    assert not fate.tells_of_memory("IndexError: index out of range in self")
    assert not fate.tells_of_memory("could not create a primitive descriptor for a convolution")
    assert not fate.tells_of_memory("CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasGemmEx(…)`")


def test_the_last_error_of_a_log_is_found_between_what_torchrun_says() -> None:
    assert fate.last_error(LOG) == "ModuleNotFoundError: No module named 'torch'"
    assert fate.last_error("all is well") == ""


def test_a_rank_that_only_lost_another_is_not_taken_for_the_cause() -> None:
    lost = "RuntimeError: [pair.cc:525] Read error [127.0.0.1]:15768: Connection reset by peer"
    assert fate.last_error(f"{LOG}\n{lost}") == fate.last_error(LOG) != ""
    assert fate.last_error(lost) == ""


def explained(**changes: object) -> LaunchFailed:
    figures: dict[str, object] = {
        "reported": [],
        "silent": [1],
        "exits": {},
        "agent": 1,
        "log": "",
        "oom_killer": False,
    }
    return fate.explain("block", **figures | changes)  # type: ignore[arg-type]


def test_a_killed_rank_is_named_before_those_that_lost_it() -> None:
    lost = LaunchFailed("crashed", "RuntimeError: Connection closed by peer")
    failure = explained(reported=[lost], exits={0: 1, 1: -signal.SIGSEGV})
    assert (failure.status, failure.message) == ("crashed", "rank 1 was killed by SIGSEGV during block")


def test_a_rank_that_tells_is_heard_though_torchrun_has_ended_the_others() -> None:
    reported = LaunchFailed("crashed", "ImportError: no libfoo")
    assert explained(reported=[reported], exits={0: 1}) is reported


def test_a_kill_from_outside_is_not_explained_by_the_log_of_the_others() -> None:
    failure = explained(silent=[0, 1], exits={1: -signal.SIGKILL}, log=f"{LOG}MemoryError\n")
    assert (failure.status, failure.message) == ("crashed", "rank 1 was killed by SIGKILL during block")


@pytest.mark.parametrize("status", [1, -signal.SIGKILL])
def test_a_rank_that_torchrun_ended_is_not_the_cause(status: int) -> None:
    """Newer ones tell of it, too."""
    found = explained(silent=[0, 1], exits={0: -signal.SIGTERM, 1: status})
    assert found.message.startswith("rank 1 ")
    assert explained(exits={1: -signal.SIGTERM}).message == "rank 1 was killed by SIGTERM during block"


def test_the_kernel_s_oom_killer_is_recognised() -> None:
    assert explained(exits={1: -signal.SIGKILL}, oom_killer=True).status == "oom"
    assert explained(agent=-signal.SIGKILL, oom_killer=True).status == "oom"
    assert explained(exits={1: 1}, oom_killer=True).status == "crashed"


def test_the_log_tells_of_memory_and_of_errors() -> None:
    assert explained(exits={0: -signal.SIGABRT}, log="what():  std::bad_alloc\n").status == "oom"
    failure = explained(exits={0: 1}, log=LOG)
    words = "rank 0 ended with status 1 during block: ModuleNotFoundError: No module named 'torch'"
    assert failure.message == words
    assert failure.details == LOG


def test_without_the_agent_s_word_the_agent_is_what_ended() -> None:
    assert explained(agent=-signal.SIGTERM).message == "torchrun was killed by SIGTERM during block"
    assert explained(agent=1, log=LOG).message.startswith("torchrun ended with status 1 during block: Module")
    assert explained(agent=None).message == "rank 1 ended without a word during block"


def test_the_kernel_s_count_of_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = fate.oom_kills()
    assert count is None or count >= 0
    (tmp_path / "vmstat").write_text("pgfault 3\noom_kill 7\n")
    (tmp_path / "cgroup").write_text("0::/a/b\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name, path in {"VMSTAT": "vmstat", "CGROUP": "cgroup", "CGROUPS": "."}.items():
        monkeypatch.setattr(fate, name, tmp_path / path)
    assert fate.oom_kills() == 7
    (tmp_path / "a" / "b" / "memory.events").write_text("oom 4\noom_kill 3\n")
    assert fate.oom_kills() == 3
    monkeypatch.setattr(fate, "CGROUPS", tmp_path / "nothing")
    monkeypatch.setattr(fate, "VMSTAT", tmp_path / "nothing")
    assert fate.oom_kills() is None
