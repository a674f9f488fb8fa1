"""Real worker groups: starting, failing and ending, with nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.errors import LaunchFailed
from bench.launch.channel import Refused, connect
from bench.launch.group import Group
from bench.launch.messages import Build, TakeFirstStep
from bench.machine.telemetry.gpu_sampler import GpuSampler
from bench.measure.comparison import Comparison
from bench.measure.plan.plans import PARITY
from bench.setup.checkout import ROOT
from tests.support.configs import a_config
from tests.support.cores import two_cores
from tests.support.processes import descendants, gone

pytestmark = [pytest.mark.usefixtures("forked"), two_cores]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    with Comparison(a_config(tmp_path), "m-cpux2").shared.starter.start("pytorch", PARITY) as started:
        yield started


def test_closing_a_group_leaves_no_process_and_no_temporary_folder(group: Group) -> None:
    group.connect()
    pids = descendants(group.local_ranks.agent.pid)
    assert len(pids) == 3
    group.close()
    assert gone(pids)
    assert not group.local_ranks.scratch.path.exists()


@pytest.mark.ort
def test_ranks_start_no_process_beside_what_is_timed(tmp_path: Path) -> None:
    """Importing DeepSpeed or ONNX Runtime starts torch's pool of compilers, if a rank has several cores."""
    pytest.importorskip("triton")
    config = a_config(tmp_path)
    config.device.world_size, config.device.threads = 1, 2
    starter = Comparison(config, "m-cpux1").shared.starter
    for backend in ("pytorch", "ortmodule_zero1"):
        with starter.start(backend, PARITY) as group:
            group.connect()
            group.request(Build())
            assert len(descendants(group.local_ranks.agent.pid)) == 2, "the agent and the rank"


def test_a_paused_group_still_ends(group: Group) -> None:
    group.connect()
    pids = descendants(group.local_ranks.agent.pid)
    group.pause()
    group.close()
    assert gone(pids)


def test_a_rank_that_aborts_is_named(group: Group) -> None:
    """One that is killed while it trains: test_failures.py."""
    group.connect()
    os.kill(group.pids[1], signal.SIGABRT)
    with pytest.raises(LaunchFailed, match=r"^rank 1 was killed by SIGABRT during build$") as caught:
        group.request(Build())
    assert caught.value.status == "crashed"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_that_is_ended_takes_its_ranks_with_it_and_is_named(
    group: Group, number: signal.Signals
) -> None:
    """Killed before they have met, or ended when they wait."""
    step: Callable[[], object] = group.connect
    phase = "start"
    if number is signal.SIGTERM:
        group.connect()
        phase, step = "build", lambda: group.request(Build())
    pids = descendants(group.local_ranks.agent.pid)
    group.local_ranks.agent.send_signal(number)
    with pytest.raises(
        LaunchFailed, match=rf"^torchrun was killed by {number.name} during {phase}$"
    ) as caught:
        step()
    assert caught.value.status == "crashed"
    assert gone(pids)


def test_a_stranger_without_the_secret_is_turned_away(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**group.listener.variables(), "BENCH_TOKEN": "guessed"}.items():
        monkeypatch.setenv(name, value)
    with ThreadPoolExecutor() as stranger:
        turned_away = stranger.submit(connect, {"rank": 0, "pid": os.getpid()})
        group.connect()
        with pytest.raises(Refused):
            turned_away.result()
    assert sorted(group.channels) == [0, 1]
    assert os.getpid() not in group.pids.values()


class Sampler(GpuSampler):
    looks = 0

    def seconds_until_due(self) -> float:
        return 0.05

    def sample(self) -> None:
        self.looks += 1


@dataclass
class Built:
    """A group that has been built while it was sampled, and how long that took."""

    group: Group
    sampler: Sampler
    seconds: float


@pytest.fixture(scope="class")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    comparison = Comparison(a_config(tmp_path_factory.mktemp("built")), "m-cpux2")
    sampler = Sampler([])
    with comparison.shared.starter.start("pytorch", PARITY) as group:
        group.connect()
        start = time.monotonic()
        group.request(Build(), sampler)
        yield Built(group, sampler, time.monotonic() - start)


class TestBuilt:
    """What one group shows that has imported everything; the last test leaves it broken."""

    def test_a_sampler_is_asked_while_the_group_works_and_not_after(self, built: Built) -> None:
        assert 0 < built.sampler.looks <= built.seconds / 0.05 + 10
        seen = built.sampler.looks
        time.sleep(0.2)
        assert built.sampler.looks == seen

    def test_the_time_limit_is_for_all_that_is_asked_of_a_group(self, built: Built) -> None:
        group = built.group
        used = group.timeout_s - group.seconds_left
        assert used > 0
        group.request(TakeFirstStep())
        assert group.timeout_s - group.seconds_left > used

    def test_what_a_rank_tells_comes_before_that_torchrun_ends_the_others(self, built: Built) -> None:
        # Only rank 0 fails; rank 1 waits for it in the first step, until torchrun notices.
        built.group.channels[0].send({"do": "no_such_request"})
        built.group.channels[1].send(TakeFirstStep())
        with pytest.raises(LaunchFailed, match=r"^ValueError: .*no_such_request"):
            built.group.answers(TakeFirstStep())


NAMELESS = """
import socket, sys
from pathlib import Path
from bench.launch.messages import Build
from bench.measure.comparison import Comparison
from bench.measure.plan.plans import PARITY
from tests.support.configs import a_config
try:
    socket.gethostbyname(socket.gethostname())
except OSError:
    with Comparison(a_config(Path(sys.argv[1])), "m-cpux2").shared.starter.start("pytorch", PARITY) as group:
        group.connect()
        group.request(Build())
        print("they have met")
"""


@pytest.mark.exhaustive
def test_ranks_meet_on_a_host_whose_name_has_no_address(tmp_path: Path) -> None:
    """As in a bare container; torch elastic's own default would wait for it for five minutes."""
    words = "unshare --user --map-root-user --uts sh -c"
    renamed = [*words.split(), 'hostname no-address && exec "$@"', "-"]
    try:
        subprocess.run([*renamed, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no name of its own can be given to a process here: {error}")
    done = subprocess.run(
        [*renamed, sys.executable, "-c", NAMELESS, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "they have met\n", done.stderr
