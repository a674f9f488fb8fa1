"""Ranks are forked: from a parent that belongs to their launch, and as whole as a process of their own."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from bench.config import choices
from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.launch.messages import Build
from bench.measure.comparison import Comparison
from bench.measure.groups.starting import GroupStarter
from bench.measure.plan.plans import PARITY, PARITY_IN_FP32
from tests.support.configs import a_config
from tests.support.processes import descendants, gone, name_of, parent_of
from tests.support.python import run_python

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores of their own"),
]


@pytest.fixture
def starter(real_parents: None, tmp_path: Path) -> GroupStarter:
    config = a_config(tmp_path, timeout_s=200)
    eager = config.backends["pytorch"]
    config.backends = {"pytorch": eager, "pytorch_zero1": replace(eager, sharding="zero1")}
    return Comparison(config, "m-cpux2").shared.starter


@pytest.fixture
def groups(starter: GroupStarter) -> Iterator[list[Group]]:
    """Two groups of one launch, connected."""
    with ExitStack() as stack:
        started = [stack.enter_context(starter.start(name, PARITY)) for name in ("pytorch", "pytorch_zero1")]
        for group in started:
            group.connect()
        yield started


def parents_of_ranks(group: Group) -> list[int]:
    """The process that has forked the group's agent, which has forked its ranks, and those before it."""
    (agent,) = {parent_of(rank) for rank in group.pids.values()}
    assert agent == group.local_ranks.agent.pid
    parents = [parent_of(agent)]
    while (before := parent_of(parents[-1])) != os.getpid():
        parents.append(before)
    assert {name_of(pid) for pid in parents} == {"bench-parent"}
    return parents


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def address_of_libc(pid: int) -> str:
    maps = Path(f"/proc/{pid}/maps").read_text()
    return next(line.partition("-")[0] for line in maps.splitlines() if re.search(r"/libc[.-]", line))


@pytest.mark.once
def test_ranks_of_a_launch_share_a_parent_and_other_variables_or_the_next_launch_have_another(
    starter: GroupStarter, groups: list[Group], monkeypatch: pytest.MonkeyPatch
) -> None:
    ddp, zero1 = map(parents_of_ranks, groups)
    assert ddp[0] != zero1[0], "DeepSpeed is imported for the group that uses it"
    assert ddp[1:] == zero1[1:]
    parent = ddp[-1]
    for pid in {*ddp, *zero1}:
        assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
    ranks = [pid for group in groups for pid in group.pids.values()]
    (address,) = {address_of_libc(pid) for pid in [parent, *ranks]}
    sessions = {os.getsid(pid) for pid in ranks}
    assert sessions == set(ranks), "signals reach each alone"
    with monkeypatch.context() as patched:
        patched.setenv("HF_HUB_OFFLINE", "1")
        with starter.start("pytorch", PARITY_IN_FP32) as other:
            other.connect()
            assert (another := parents_of_ranks(other)[-1]) != parent
            assert b"HF_HUB_OFFLINE=1" in Path(f"/proc/{another}/environ").read_bytes()
    for group in groups:
        group.close()
    assert gone([*ddp, *zero1, *ranks], 1)
    with starter.start("pytorch", PARITY) as later:
        later.connect()
        assert parents_of_ranks(later)[-1] != parent
        assert address_of_libc(later.pids[0]) != address


def test_the_imports_are_made_before_a_rank_begins_and_count_as_its_set_up(groups: list[Group]) -> None:
    imported: dict[str, float] = {}
    for group, name in zip(groups, ("pytorch", "pytorch_zero1"), strict=True):
        for answer in group.request(Build()):
            assert 0.5 < answer.import_seconds < answer.seconds
            imported[name] = answer.import_seconds
    assert imported["pytorch_zero1"] > imported["pytorch"] + 0.1, "DeepSpeed is imported for itself alone"
    maps = {group: Path(f"/proc/{group.pids[0]}/maps").read_text() for group in groups}
    assert all("libtorch_cpu" in each for each in maps.values())
    parent = resident_bytes(parents_of_ranks(groups[0])[0])
    assert all(resident_bytes(pid) > parent for pid in groups[0].pids.values()), "with its libraries' files"
    for group in groups:
        assert "not forked" not in group.log_tail()


@pytest.mark.once
def test_a_rank_that_is_killed_before_it_begins_is_named(starter: GroupStarter) -> None:
    with starter.start("pytorch", PARITY) as group:
        agent = group.local_ranks.agent.pid
        while len(ranks := descendants(agent)) < 3:
            assert group.local_ranks.agent.poll() is None
        os.kill(ranks[-1], 9)
        with pytest.raises(LaunchFailed, match=r"^rank \d was killed by SIGKILL during start$"):
            group.connect()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_imported_before_ranks_are_forked_starts_no_thread_and_asks_for_no_gpu(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every choice on a CPU; beside a GPU ranks import their engine and sharding themselves."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    variables = {"DS_ACCELERATOR": device, "OMP_NUM_THREADS": "1", "TORCH_WARM_POOL": "0"}
    variables |= {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
    modules = MODULES if device == "cpu" else []
    asked = run_python("-c", _IMPORT_EVERYTHING, *modules, variables=variables)
    words = [line for line in asked.stdout.splitlines() if line.startswith("-- ")]
    assert words == ["-- all: ", *(f"-- {each}: " for each in modules)], asked


MODULES = [
    *(f"engines.{name}" for name in choices.ENGINES),
    *(f"sharding.{name}" for name in choices.SHARDINGS),
]

_IMPORT_EVERYTHING = """
import os, sys
from contextlib import suppress
from bench.errors import LaunchFailed
from bench.worker import agent, load_choice, parent
parent.import_for_ranks("bert")
def told():
    if (pid := os.fork()) == 0:  # where torch says whether CUDA would work
        print(f"-- {name}: {agent.find_obstacle()}", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
name = "all"
print("-- all: " + agent.find_obstacle(), flush=True) if len(os.listdir("/proc/self/task")) > 1 else told()
for name in sys.argv[1:]:
    if (pid := os.fork()) == 0:
        with suppress(LaunchFailed):
            load_choice(*name.split("."))
        print(f"-- {name}: {agent.find_obstacle()}", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_the_peak_of_a_forked_process_begins_with_what_it_has(tmp_path: Path) -> None:
    """Not with its parent's: a rank's set-up is measured from its start on."""
    script = """
import os
from bench.machine.telemetry.host_memory import read_host_memory
large = bytearray(os.urandom(1 << 20)) * 300
del large
before = read_host_memory().peak
if os.fork() == 0:
    print(before - read_host_memory().peak, flush=True)
"""
    assert int(run_python("-c", script, check=True).stdout) > 250 << 20
