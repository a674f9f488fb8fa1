"""The real backends: real worker groups, a tiny model, two ranks on a CPU."""

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from configs import BACKENDS, a_config, a_model
from rich.console import Console

from bench.coordinator import Comparison
from bench.launch.group import Group
from bench.progress import Bar

ROOT = Path(__file__).resolve().parents[1]
ALL = list(BACKENDS)

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores of their own"
)


@dataclasses.dataclass
class Running:
    """Three groups that have been built, have taken a first step and now wait."""

    groups: dict[str, Group]
    built: dict[str, list[dict[str, Any]]]
    first: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    comparison = Comparison(a_config(tmp_path_factory.mktemp("running"), timeout_s=300), "m-cpux2")
    with ExitStack() as stack:
        # Launch 0 lets the reference save the initial state; dropout is off in it.
        groups = {name: stack.enter_context(comparison.start(name, 0)) for name in ALL}
        for group in groups.values():
            group.connect()
        built = {name: group.request("build") for name, group in groups.items()}
        first = {name: group.request("first_step") for name, group in groups.items()}
        yield Running(groups, built, first)
        for group in groups.values():
            group.end()


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, and itself."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in children for found in descendants(int(child)))]


def cpu_nanoseconds(pids: list[int]) -> int:
    """Time on a CPU of all threads of these processes, exact where /proc/*/stat counts in ticks."""
    return sum(
        int(task.joinpath("schedstat").read_text().split()[0])
        for pid in pids
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


@pytest.mark.alone
@pytest.mark.timeout(600)
class TestRunning:
    """What three waiting groups show."""

    def test_the_model_is_built_from_its_configuration(self, running: Running) -> None:
        for answers in running.built.values():
            assert {answer["parameters"] for answer in answers} == {a_model().parameters}

    def test_ort_s_losses_came_out_of_ort_s_autograd_node(self, running: Running) -> None:
        for name in ("ortmodule", "ortmodule_zero1"):
            for answer in running.first[name]:
                engine = answer["proof"]["engine"]
                assert engine["loss_function"] == "_ORTModuleFunctionBackward"
                assert engine["nodes"] > 100
                assert engine["onnxruntime"] == "1.19.2"
        eager = running.first["pytorch"][0]["proof"]["engine"]
        assert eager["loss_function"] == "NllLossBackward0"

    def test_every_backend_ran_the_same_hyperparameters(self, running: Running) -> None:
        for name in ALL:
            optimizer = running.first[name][0]["proof"]["optimizer"]
            assert optimizer["class"] == "torch.optim.adamw.AdamW"
            (group,) = optimizer["groups"]
            assert (group["lr"], group["betas"], group["eps"]) == (1e-4, [0.9, 0.999], 1e-8)
            assert bool(group["fused"]) == (name != "pytorch")

    def test_zero_1_is_deepspeed_s_and_ddp_is_torch_s(self, running: Running) -> None:
        zero = running.first["ortmodule_zero1"][0]["proof"]["sharding"]
        assert zero["stage"] == 1
        assert zero["optimizer_class"].endswith("DeepSpeedZeroOptimizer")
        for name in ("pytorch", "ortmodule"):
            sharding = running.first[name][0]["proof"]["sharding"]
            assert sharding["class"].endswith("DistributedDataParallel")

    def test_zero_1_halves_the_optimizer_states_of_two_ranks(self, running: Running) -> None:
        def held(name: str) -> list[int]:
            return [answer["optimizer_state_bytes"] for answer in running.first[name]]

        parameters = a_model().parameters
        assert held("ortmodule") == pytest.approx([8 * parameters] * 2, rel=0.01)
        assert held("ortmodule_zero1") == pytest.approx([4 * parameters] * 2, rel=0.01)

    def test_every_thread_stays_on_its_rank_s_cores(self, running: Running) -> None:
        cores = sorted(os.sched_getaffinity(0))
        for group in running.groups.values():
            for rank, pid in enumerate(sorted_by_rank(group)):
                threads = list(Path(f"/proc/{pid}/task").iterdir())
                assert threads
                for thread in threads:
                    assert os.sched_getaffinity(int(thread.name)) == {cores[rank]}

    def test_ranks_see_different_batches_and_start_from_the_same_weights(self, running: Running) -> None:
        for rank in range(2):
            losses = [running.first[name][rank]["losses"][0] for name in ALL]
            assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
        pytorch = running.first["pytorch"]
        assert pytorch[0]["losses"] != pytorch[1]["losses"]

    def test_waiting_groups_and_the_coordinator_use_less_than_one_percent_of_a_core(
        self, running: Running
    ) -> None:
        group = running.groups["pytorch"]
        seconds = max(answer["seconds"] for answer in group.request("block", steps=50))
        steps = round(50 * 6 / seconds)
        for name in ("ortmodule", "ortmodule_zero1"):
            running.groups[name].pause()
        idle = [os.getpid()] + [
            pid
            for name, other in running.groups.items()
            for pid in (descendants(other.here.agent.pid) if name != "pytorch" else [other.here.agent.pid])
        ]
        assert len(idle) == 1 + 1 + 2 * 3
        time.sleep(1)
        before, start = cpu_nanoseconds(idle), time.monotonic()
        group.request("block", steps=steps)
        share = (cpu_nanoseconds(idle) - before) / 1e9 / (time.monotonic() - start)
        print(f"idle processes used {share:.3%} of a core")
        assert share < 0.01


def sorted_by_rank(group: Group) -> list[int]:
    """The pids of a group's ranks."""
    pids = [pid for pid in descendants(group.here.agent.pid) if pid != group.here.agent.pid]
    return sorted(pids, key=lambda pid: int(variable(pid, "RANK")))


def variable(pid: int, name: str) -> str:
    """An environment variable of another process."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)[name]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("grad_accum", [4])  # without accumulation: tests/test_end_to_end.py
def test_all_three_backends_train_alike_over_twenty_steps(tmp_path: Path, grad_accum: int) -> None:
    config = dataclasses.replace(
        a_config(tmp_path, parity_steps=20, parity_tolerance=1e-4, timeout_s=300),
        grad_accum=grad_accum,
        adam=dataclasses.replace(a_config(tmp_path).adam, lr=1e-3, weight_decay=0.01),
    )
    comparison = Comparison(config, "m-cpux2")
    with Bar(comparison.planned(), Console(quiet=True)) as bar:
        passed = comparison.check_parity(bar)
    assert passed == ALL, comparison.failures()
    print({name: f"{found:.1e}" for name, found in comparison.ledger.loss_differences.items()})
    losses = comparison.ledger.trajectories["pytorch"].losses
    norms = {name: found.gradient_norms for name, found in comparison.ledger.trajectories.items()}
    for name in ALL:
        assert norms[name] == pytest.approx(norms["pytorch"], rel=1e-3)
    assert len(losses) == 20
    # The check means something only if training moves the loss by far more than the tolerance.
    assert losses[-1] < losses[0] * 0.95


@pytest.mark.alone
@pytest.mark.timeout(300)
@pytest.mark.parametrize("held", [True, False])
def test_ort_keeps_to_its_threads_only_because_it_is_made_to(held: bool) -> None:
    """The second case shows that the first can fail: left alone, ORT takes every core."""
    done = subprocess.run(
        [sys.executable, "-c", _ORT_THREADS, "1" if held else "0"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "ORTMODULE_FALLBACK_POLICY": "FALLBACK_DISABLE"},
        capture_output=True,
        text=True,
        check=True,
    )
    busiest = float(done.stdout.split()[-1])
    print(f"held to one thread: {held}; the busiest thread's share of the CPU time: {busiest:.2f}")
    assert (busiest > 0.95) if held else (busiest < 0.8)


_ORT_THREADS = """
import sys, time, torch
from bench.engines import ortmodule
torch.set_num_threads(1)
if sys.argv[1] == "0":
    ortmodule.keep_to_threads = lambda threads: None
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)])
module = ortmodule.Engine().wrap(model, threads=1, checkpointing=False)
batch = torch.randn(512, 1024)
def step():
    module(batch).square().mean().backward()
for _ in range(3):
    step()
from pathlib import Path
def nanoseconds():
    tasks = Path("/proc/self/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks}
before, start = nanoseconds(), time.perf_counter()
while time.perf_counter() - start < 3:
    step()
used = [after - before.get(thread, 0) for thread, after in nanoseconds().items()]
print(max(used) / sum(used))
"""
