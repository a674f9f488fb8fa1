"""Agents of torch elastic: forked from a parent, each with variables, a log and an end of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from bench.launch.agents import Agent, end_spares, keep_parents, run_module, wait_for_imports
from bench.launch.channel import TOKEN_VARIABLE
from bench.setup.checkout import ROOT
from tests.support.processes import alive, children, descendants, gone, parent_of

pytestmark = pytest.mark.usefixtures("real_parents")

of_parents = pytest.mark.once
"""Of the processes that fork agents, which are ours; the agents are torch's, of either stack."""


class Starter:
    """Starts agents, and ends those that are left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.agents: list[Agent] = []

    def start(
        self,
        script: str,
        *,
        interpreter: str = sys.executable,
        ranks: int = 1,
        variables: Mapping[str, str] = MappingProxyType({}),
        imports: Sequence[str] = (),
    ) -> Agent:
        """An agent whose ranks are shells; torchrun makes one `$` of two. `said` has what they write."""
        standalone = ("--standalone", f"--nproc-per-node={ranks}", "--monitor-interval=0.1", "--no-python")
        needed = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        with (self.folder / f"{len(self.agents)}.log").open("wb") as log:
            agent = Agent(
                interpreter,
                [*standalone, "sh", "-c", script],
                variables={**needed, **variables},
                log=log,
                imports=imports,
            )
        self.agents.append(agent)
        return agent

    def said(self, agent: Agent) -> str:
        """What an agent and its ranks have written."""
        return (self.folder / f"{self.agents.index(agent)}.log").read_text()


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Starter]:
    end_spares()  # what other tests have left
    made = Starter(tmp_path)
    yield made
    for agent in made.agents:
        agent.send_signal(signal.SIGKILL)
        agent.wait()


def cores(allowed: set[int]) -> str:
    """How the kernel writes cores that follow each other."""
    first, last = min(allowed), max(allowed)
    return f"Cpus_allowed_list:\t{first}" + f"-{last}" * (last > first)


def test_each_has_variables_cores_and_a_log_of_its_own(starter: Starter) -> None:
    shown = "colour=$COLOUR, length=${#A}${#B}${#C}, $(grep Cpus_allowed_list /proc/self/status)"
    end = starter.folder / "end"  # until it is there, all run: /proc knows none that has ended
    script = f'echo "{shown}"; until [ -e {end} ]; do sleep 0.1; done'
    allowed = os.sched_getaffinity(0)
    long = dict.fromkeys("ABC", "x" * 100_000)  # together more than a socket takes at once
    red = starter.start(script, variables={"COLOUR": "red", **long})
    same = starter.start(script, variables={"COLOUR": "red", **long, "TMPDIR": "/", TOKEN_VARIABLE: "its"})
    try:
        os.sched_setaffinity(0, {min(allowed)})
        blue = starter.start(script, variables={"COLOUR": "blue"})
    finally:
        os.sched_setaffinity(0, allowed)
    assert parent_of(red.pid) == parent_of(same.pid) != os.getpid()
    assert parent_of(blue.pid) not in (parent_of(red.pid), os.getpid()), "an import may have read its colour"
    assert os.sched_getaffinity(parent_of(blue.pid)) == allowed, "it imports where nothing is measured yet"
    end.touch()
    assert red.wait() == blue.wait() == 0
    assert starter.said(red) == f"colour=red, length=100000100000100000, {cores(allowed)}\n"
    assert starter.said(blue) == f"colour=blue, length=000, {cores({min(allowed)})}\n"


@pytest.mark.parametrize(
    ("script", "exits"),
    [
        ("exit $((7 * LOCAL_RANK))", {1: 7}),
        ("[ $LOCAL_RANK = 1 ] || kill -SEGV $$$$; exec sleep 60", {0: -signal.SIGSEGV}),
    ],
)
def test_ranks_that_fail_by_themselves_are_reported(
    starter: Starter, script: str, exits: dict[int, int]
) -> None:
    agent = starter.start(script, ranks=2)
    assert agent.wait() == 1
    # Newer versions of torch list the ranks that the agent has ended, too.
    ended = {rank: status for rank, status in agent.exits.items() if status != -signal.SIGTERM}
    assert ended == exits


def test_one_that_is_killed_ends_alone(starter: Starter) -> None:
    killed, other = starter.start("sleep 60"), starter.start("sleep 60")
    below = descendants(other.pid)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert other.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(0.1)
    assert all(map(alive, below))
    other.send_signal(signal.SIGTERM)
    assert other.wait() == -signal.SIGTERM
    assert gone(below)
    other.send_signal(signal.SIGKILL)  # its number may be another process' by now
    assert other.returncode == -signal.SIGTERM


@of_parents
def test_without_the_process_that_forked_them_all_end_and_later_ones_get_another(starter: Starter) -> None:
    agents = [starter.start("sleep 60") for _ in range(2)]
    forking, below = parent_of(agents[0].pid), [pid for agent in agents for pid in descendants(agent.pid)]
    os.kill(forking, signal.SIGKILL)
    assert [agent.wait() for agent in agents] == [-signal.SIGKILL] * 2
    assert gone(below)
    later = starter.start("exit 0")
    assert later.wait() == 0
    assert parent_of(starter.start("sleep 60").pid) != forking


@of_parents
def test_a_parent_ends_with_its_last_agent_unless_it_is_kept(starter: Starter) -> None:
    first, last = starter.start("sleep 60"), starter.start("sleep 60")
    parent = parent_of(first.pid)
    first.send_signal(signal.SIGKILL)
    assert first.wait(10) == -signal.SIGKILL
    assert alive(parent)
    last.send_signal(signal.SIGKILL)
    assert last.wait(10) == -signal.SIGKILL
    assert not Path(f"/proc/{parent}").exists()
    with keep_parents():
        first = starter.start("sleep 60")
        parent = parent_of(first.pid)
        first.send_signal(signal.SIGKILL)
        first.wait(10)
        assert parent_of(starter.start("sleep 60").pid) == parent
        starter.agents[-1].send_signal(signal.SIGKILL)
        starter.agents[-1].wait(10)
        assert alive(parent)
    assert not Path(f"/proc/{parent}").exists()


@of_parents
def test_agents_with_the_same_imports_share_a_parent_that_the_parent_without_has_forked(
    starter: Starter,
) -> None:
    plain = starter.start("sleep 60")
    one, other = (starter.start("sleep 60", imports=["of_nobody", "state.initial_state"]) for _ in range(2))
    parents = [parent_of(one.pid)]
    while parents[-1] != parent_of(plain.pid):
        parents.append(parent_of(parents[-1]))
    assert len(parents) == 3, "each import has a parent"
    assert parent_of(other.pid) == parents[0]
    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in parents]
    assert ["safetensors" in each for each in maps] == [True, False, False]
    below = [pid for agent in (one, other) for pid in descendants(agent.pid)]
    os.kill(parents[0], signal.SIGKILL)
    assert [one.wait(), other.wait()] == [-signal.SIGKILL] * 2
    assert gone([*below, parents[1]])
    assert plain.poll() is None
    plain.send_signal(signal.SIGKILL)
    plain.wait()
    assert not Path(f"/proc/{parents[-1]}").exists()


@of_parents
def test_a_parent_whose_coordinator_is_gone_ends_without_a_word(starter: Starter) -> None:
    with keep_parents():
        agent = starter.start("exit 0")
        assert agent.wait() == 0
        agent._parent.orders.close()  # as when the coordinator itself has been killed
        assert agent._parent.process.wait(60) == 0
        assert starter.said(agent) == ""


@of_parents
def test_while_a_launch_starts_the_parent_of_the_next_imports_too_and_then_sleeps(starter: Starter) -> None:
    others = set(children(os.getpid()))

    def run(*, is_last: bool) -> tuple[int, set[int]]:
        """A launch's parent, and others that are there once it has ended."""
        with keep_parents(is_last=is_last):
            parent = parent_of(starter.start("exit 0").pid)
            for _ in range(2):  # what is known is not waited for
                wait_for_imports()
            assert starter.agents[-1].wait() == 0
        assert not alive(parent)
        return parent, set(children(os.getpid())) - others

    first, (spare,) = run(is_last=False)
    assert Path(f"/proc/{spare}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    assert "torch" in Path(f"/proc/{spare}/maps").read_text()
    second, (dead,) = run(is_last=False)
    assert second == spare
    os.kill(dead, signal.SIGKILL)
    assert gone([dead])
    last, left = run(is_last=True)
    assert (last in {first, spare, dead}, left) == (False, set())
    run(is_last=False)
    end_spares()
    assert set(children(os.getpid())) == others


def test_one_whose_python_has_no_torch_says_so_in_its_log_and_one_without_a_python_raises(
    starter: Starter,
) -> None:
    with pytest.raises(OSError, match="no-such-python"):  # which groups put on record
        starter.start("exit 0", interpreter="/no-such-python")
    without = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    agents = [starter.start("exit 0", interpreter=without) for _ in range(2)]
    assert [agent.wait() for agent in agents] == [1, 1]
    for agent in agents:
        assert starter.said(agent).endswith("ModuleNotFoundError: No module named 'torch'\n")


@of_parents
def test_a_module_runs_where_ranks_begin_and_the_next_launch_takes_its_parent_over(tmp_path: Path) -> None:
    end_spares()
    others = set(children(os.getpid()))
    (tmp_path / "own.py").write_text(OWN_MODULE)
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT}:{tmp_path}",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
    }
    with (tmp_path / "log").open("wb") as log:
        status = run_module("own", ["seen"], variables=variables, architecture="bert", log=log)
        assert status == 7
        (parent,) = set(children(os.getpid())) - others
        assert (tmp_path / "log").read_text().split()[-2:] == ["seen", "True"], "what ranks import is there"
        with keep_parents():
            agent = Agent(sys.executable, ["--help"], variables=variables, log=log, architecture="bert")
            assert parent_of(agent.pid) == parent
            assert agent.wait() == 0
    assert not alive(parent)


OWN_MODULE = """
import sys

def main(word):
    print(word, "transformers.models.bert.modeling_bert" in sys.modules)
    return 7
"""
