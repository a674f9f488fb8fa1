"""The real backends: real worker groups, a tiny model, two ranks on a CPU."""

import dataclasses
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.launch.group import Group
from bench.launch.messages import (
    Build,
    Built,
    FirstStepTaken,
    ParityTrained,
    TakeFirstStep,
    TimeBlock,
    TrainForParity,
    UseBatches,
)
from bench.measure.comparison import Comparison
from bench.measure.plan.plans import PARITY, Tolerances
from bench.measure.stages.judging import Trajectory, check_parity, mean_over_ranks
from tests.support.configs import BACKENDS, SMALL, a_config
from tests.support.cores import two_cores
from tests.support.processes import descendants
from tests.support.python import run_python

ALL = list(BACKENDS)

pytestmark = two_cores


@dataclasses.dataclass
class Running:
    """Three groups that have been built, have taken a first step and now wait."""

    groups: dict[str, Group]
    built: dict[str, list[Built]]
    first: dict[str, list[FirstStepTaken]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = a_config(tmp_path_factory.mktemp("running"))
    adam = dataclasses.replace(made.adam, lr=1e-3, weight_decay=0.01)
    comparison = Comparison(dataclasses.replace(made, grad_accum=4, adam=adam), "m-cpux2")
    with ExitStack() as stack:
        # Launch 0 lets the reference save the initial state; dropout is off in it.
        groups = {name: stack.enter_context(comparison.shared.starter.start(name, PARITY)) for name in ALL}
        for group in groups.values():
            group.connect()
        built = {name: group.request(Build()) for name, group in groups.items()}
        first = {name: group.request(TakeFirstStep()) for name, group in groups.items()}
        yield Running(groups, built, first)
        for group in groups.values():
            group.end()


def cpu_nanoseconds(pids: list[int]) -> int:
    """Time on a CPU of all threads of these processes, exact where /proc/*/stat counts in ticks."""
    return sum(
        int(task.joinpath("schedstat").read_text().split()[0])
        for pid in pids
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


@pytest.mark.ort
@pytest.mark.usefixtures("forked")
class TestRunning:
    """What three waiting groups show."""

    def test_what_ran_is_what_was_asked_for(self, running: Running) -> None:
        """The model, ORT's autograd node, every hyperparameter, DeepSpeed's and torch's sharding."""
        for name in ALL:
            assert {answer.parameters for answer in running.built[name]} == {SMALL}
            proof = running.first[name][0].proof
            engine, optimizer, sharding = (proof[part] for part in ("engine", "optimizer", "sharding"))
            assert optimizer["class"] == "torch.optim.adamw.AdamW"
            (group,) = optimizer["groups"]
            assert (group["lr"], group["betas"], group["eps"]) == (1e-3, [0.9, 0.999], 1e-8)
            assert group["weight_decay"] == 0.01
            assert bool(group["fused"]) == (name != "pytorch")
            assert optimizer["implementation"] == ("for-loop" if name == "pytorch" else "fused")
            if name == "pytorch":
                assert engine["loss_function"] == "NllLossBackward0"
            else:
                assert engine["loss_function"] == "_ORTModuleFunctionBackward"
                assert engine["nodes"] > 100
                assert engine["onnxruntime"] == "1.19.2"
            if name == "ortmodule_zero1":
                assert sharding["stage"] == 1
                assert sharding["optimizer_class"].endswith("DeepSpeedZeroOptimizer")
            else:
                assert sharding["class"].endswith("DistributedDataParallel")

    def test_zero_1_halves_the_optimizer_states_and_weights_are_held_once_but_for_the_part_it_updates(
        self, running: Running
    ) -> None:
        for name, of_states, of_weights in (
            ("pytorch", 8, 4),
            ("ortmodule", 8, 4),
            ("ortmodule_zero1", 4, 6),
        ):
            for answer in running.first[name]:
                assert answer.optimizer_state_bytes == pytest.approx(of_states * SMALL, rel=0.01)
                assert answer.weights_bytes == pytest.approx(of_weights * SMALL, rel=0.01)

    def test_every_thread_stays_on_its_rank_s_cores(self, running: Running) -> None:
        cores = sorted(os.sched_getaffinity(0))
        for group in running.groups.values():
            for rank, pid in group.pids.items():
                threads = list(Path(f"/proc/{pid}/task").iterdir())
                assert threads
                for thread in threads:
                    assert os.sched_getaffinity(int(thread.name)) == {cores[rank]}

    def test_ranks_see_different_batches_and_start_from_the_same_weights(self, running: Running) -> None:
        for rank in range(2):
            losses = [running.first[name][rank].losses[0] for name in ALL]
            assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
        pytorch = running.first["pytorch"]
        assert pytorch[0].losses != pytorch[1].losses

    def test_all_three_train_alike_over_twenty_steps_with_accumulated_gradients(
        self, running: Running
    ) -> None:
        """Without accumulation: tests/real/test_datasets_end_to_end.py."""
        trained: dict[str, Trajectory] = {}
        for name, group in running.groups.items():
            group.request(UseBatches(numbers=[[*range(8)]]))
            trained[name] = trajectory(group.request(TrainForParity(steps=20)))
        for name in ALL:
            tolerances = Tolerances(loss=1e-4, gradient_norm=1e-3)
            found = check_parity(trained[name], trained["pytorch"], tolerances)
            print(f"{name}: losses within {found:.1e}")
        losses = trained["pytorch"].losses
        # The check means something only if training moves the loss by far more than the tolerance.
        assert losses[-1] < losses[0] * 0.95

    @pytest.mark.time
    def test_waiting_groups_and_the_coordinator_use_less_than_one_percent_of_a_core(
        self, running: Running
    ) -> None:
        group = running.groups["pytorch"]
        seconds = max(answer.seconds for answer in group.request(TimeBlock(steps=50)))
        steps = round(50 * 4 / seconds)
        for name in ("ortmodule", "ortmodule_zero1"):
            running.groups[name].pause()
        idle = [
            pid
            for name, other in running.groups.items()
            for pid in (
                descendants(other.local_ranks.agent.pid)
                if name != "pytorch"
                else [other.local_ranks.agent.pid]
            )
        ]
        assert len(idle) == 1 + 2 * 3
        time.sleep(1)
        before, start = cpu_nanoseconds(idle), time.monotonic()
        own = time.thread_time_ns()  # of the coordinator; other threads here are the test runner's
        group.request(TimeBlock(steps=steps))
        spent = cpu_nanoseconds(idle) - before + time.thread_time_ns() - own
        share = spent / 1e9 / (time.monotonic() - start)
        print(f"idle processes used {share:.3%} of a core")
        assert share < 0.01


def trajectory(answers: list[ParityTrained]) -> Trajectory:
    """Of a group's answers, as the parity launch takes it."""
    return Trajectory(
        losses=mean_over_ranks([answer.losses for answer in answers]),
        gradient_norms=mean_over_ranks([answer.gradient_norms for answer in answers]),
    )


@pytest.mark.exhaustive
@pytest.mark.ort
def test_ort_keeps_to_its_threads_only_because_it_is_made_to() -> None:
    """The second figure shows that the first can fail: left alone, ORT takes every core."""
    variables = {"OMP_NUM_THREADS": "1", "ORTMODULE_FALLBACK_POLICY": "FALLBACK_DISABLE"}
    done = run_python("-c", _ORT_THREADS, check=True, variables=variables)
    held, left = map(float, done.stdout.splitlines()[-1].split())
    print(f"the busiest thread's share of the CPU time: held to one thread {held:.2f}, left alone {left:.2f}")
    assert held > 0.95
    assert left < 0.8


_ORT_THREADS = """
import time, torch
from pathlib import Path
from bench.worker.engines import ortmodule

def nanoseconds():
    tasks = Path("/proc/self/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks}

def busiest(threads):
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)])
    module = ortmodule.Engine().wrap(model, threads=threads, checkpointing=False)
    def step():
        module(batch).square().mean().backward()
    for _ in range(3):
        step()
    before, start = nanoseconds(), time.perf_counter()
    while time.perf_counter() - start < 2:
        step()
    used = [after - before.get(thread, 0) for thread, after in nanoseconds().items()]
    return max(used) / sum(used)

torch.set_num_threads(1)
batch = torch.randn(512, 1024)
held = busiest(1)
print()
print(held, busiest(None))
"""
