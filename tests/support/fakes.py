"""A clock, a training and a worker group that take no time, so that tests can expect exact numbers."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.errors import LaunchFailed
from bench.launch.messages import (
    A,
    BlockTimed,
    Build,
    Built,
    ComputeLosses,
    Done,
    ExpectedTensor,
    ExpectedTensorsWritten,
    FirstStepTaken,
    LossesComputed,
    ParityTrained,
    Request,
    TakeFirstStep,
    TimeBlock,
    TrainForParity,
    UseBatches,
    WriteExpectedTensors,
)
from bench.launch.spec import WorkerSpec
from bench.study import find_studies

OF_STUDIES: dict[type, Callable[["FakeGroup", Any, int], Any]] = {}
"""What answers a study's requests, by their class: `tests/studies/NAME/fakes.py` puts it here."""


@cache
def find_answers() -> dict[type, Callable[["FakeGroup", Any, int], Any]]:
    """Those of every study that is there."""
    for name in find_studies():
        if find_spec(f"tests.studies.{name}") and find_spec(module := f"tests.studies.{name}.fakes"):
            import_module(module)
    return OF_STUDIES


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeLosses(list[float]):
    """Losses whose reading is noted, so that a test can see that nobody reads them inside a block."""

    def __init__(self, steps: int, log: list[str]) -> None:
        super().__init__([0.0] * steps)
        self.log = log

    def tolist(self) -> list[float]:
        self.log.append("read losses")
        return list(self)


class FakeTraining:
    """Takes exactly `step_seconds` a step and `sync_seconds` a synchronisation, and logs what was called."""

    imported_at = 0.0
    facts: dict[str, Any] = {  # noqa: RUF012
        **{"attention": "eager", "parameters": 1000, "trainable_parameters": 1000, "padding_share": 0.25},
        **{"host_runtime_bytes": 50 << 20, "host_runtime_anonymous_bytes": 40 << 20},
        **{"weights": "", "library": "torch"},
    }
    absent: dict[str, str] = {"torch_peak_reserved_bytes": "a fake has none"}  # noqa: RUF012

    def __init__(self, clock: FakeClock, *, step_seconds: float, sync_seconds: float) -> None:
        self.clock = clock
        self.step_seconds = step_seconds
        self.sync_seconds = sync_seconds
        self.log: list[str] = []
        self.feed = self

    def steps(self, count: int) -> list[list[Any]]:
        self.log += ["make batch"] * count
        self.clock.now += 1000 * count  # were batches made inside the block, everybody would notice
        return [[{"input_ids": SimpleNamespace(shape=(4, 16))}]] * count

    def waited(self) -> None:
        pass

    def random_states(self) -> None:
        """It draws nothing."""

    def loss_scaling(self) -> dict[str, None]:
        return {"loss_scale": None, "skipped_steps": None}

    def room_for_losses(self, steps: int) -> FakeLosses:
        return FakeLosses(steps, self.log)

    def step(self, _: list[Any]) -> float:
        self.log.append("step")
        self.clock.now += self.step_seconds
        return 2.5

    step_until_applied = step

    def synchronize(self) -> None:
        self.log.append("synchronize")
        self.clock.now += self.sync_seconds

    def barrier(self) -> None:
        self.log.append("barrier")
        self.clock.now += 500

    def reset_peaks(self) -> None:
        self.log.append("reset peaks")

    def allocator_retries(self) -> None:
        """As on a CPU."""

    def free_cached(self) -> None:
        self.log.append("free cached")

    def torch_peaks(self) -> tuple[int | None, int | None]:
        return None, None


Script = dict[str, Any]
"""How one fake backend behaves: `step_seconds`, `loss` of a parity step, `launches`: {launch: how much
slower}, `disturbed`: {(launch, nth block): share that others take}, `skipped`: likewise, steps, and
`fails`: {(action, launch, nth such request): LaunchFailed}. `fits`: the largest micro-batch with which
warm-up does not end in oom, in trials and launches; `fits_at_once`: the largest without a retry of
torch's allocator; `breaks`: {(launch, micro-batch): LaunchFailed} in timed blocks; `takes`: a fake NVML,
and the bytes of each GPU that a micro-batch takes; `filled_at`: samples of a rank above which a step
takes longer; `with_dropout`: how many times as much that is then; `products`: FLOP/s of a rank in a
square and in each shape of the workload. `differences`: {precision: by tensor, how far it is from
`EXPECTED`}; `no_expected_tensors`: why they cannot be compared; `cannot`: {precision: LaunchFailed}.
`held_out`: a function from steps to the loss; `extra_steps`: that it says it has taken beside those it
was asked for. `batch_losses`: {(precision of parity or "late", batch, rank): its loss}; `trained`:
{(rank, nth block): figures of what was trained that are others than was asked for}, with None for the
first step; `random`: steps draw random numbers; `changes_at`: the step of a launch from which on losses
differ; `frozen`: what its exporter has warned of.
"""


EXPECTED = {
    name: ExpectedTensor(norm=1.0, noise=1e-7)
    for name in ("gradient words", "last gradient words", "weight update words")
}
"""What every fake reference expects."""


class FakeGroup:
    """Stands for bench.launch.group.Group: answers at once, from a script, with exact figures."""

    def __init__(
        self,
        script: Script,
        spec: WorkerSpec,
        world_size: int,
        folder: Path,
        started: Sequence["FakeGroup"] = (),
    ) -> None:
        self.script = script
        self.started = started
        self.awake = False
        self.spec = spec
        self.world_size = world_size
        self.trial = folder.parent.name.startswith("trial-")
        number = folder.parent.name.rpartition("-")[2]  # of a launch, or a study's
        self.launch = int(number) if number.isdecimal() and not self.trial else 0
        self.counts: dict[str, int] = {}
        self.noted: list[Any] = []  # by what answers studies' requests
        self.steps = 0  # trained so far
        self.batches = 0  # taken since they began anew
        self.closed = False
        self.filled = 1.0  # how much longer the last block's steps took, since its micro-batch was larger
        self.untimed = 0  # steps before those of the last block
        self.taken = 0  # times the memory that the script says
        if spec.saves_initial_state:
            self.initial_state = Path(spec.initial_state)
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "FakeGroup":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        pass

    def ask(self, request: Request[A]) -> None:
        self.awake = True
        self.counts[request.name] = self.counts.get(request.name, 0) + 1
        if isinstance(request, TimeBlock):
            self.steps += request.steps + request.untimed
            self.untimed = request.untimed
        self.steps += isinstance(request, TakeFirstStep)
        if isinstance(request, UseBatches):
            self.batches = 0
        if isinstance(request, TrainForParity):
            self.batches += request.steps
        self.batches += request.name == "count_flops"
        if isinstance(request, Build) and self.spec.saves_initial_state:
            Path(self.spec.initial_state).touch()

    def answers(self, request: Request[A]) -> list[Any]:
        action = request.name
        if cannot := self.script.get("cannot", {}).get(self.spec.precision.name):
            raise LaunchFailed(*cannot)
        failure = self.script.get("fails", {}).get((action, self.launch, self.counts[action]))
        if failure is not None:
            raise LaunchFailed(*failure)
        times = request.times if isinstance(request, TimeBlock) else 1
        if action == "block" and times * self.spec.micro_batch > self.script.get("fits", math.inf):
            raise LaunchFailed("oom", "can't allocate memory")
        broken = self.script.get("breaks", {}).get((self.launch, self.spec.micro_batch))
        if action == "block" and broken is not None and self.counts["block"] > 4:
            raise LaunchFailed(*broken)
        return [self._answer(request, rank) for rank in range(self.world_size)]

    def request(self, request: Request[A], sampler: object = None) -> list[Any]:
        try:
            return self._request(request)
        finally:
            self.awake &= self.spec.device == "cpu"  # a rank on a GPU has synchronised, and sleeps in a read

    def _request(self, request: Request[A]) -> list[Any]:
        others = [group for group in self.started if group is not self and not group.closed]
        others = others if self.launch else []  # in the parity launch nothing is timed
        assert not any(group.awake for group in others), "while one is measured, the others sleep"
        self.ask(request)
        return self.answers(request)

    def pause(self) -> None:
        assert not self.closed
        assert not (self.launch and self.spec.device == "cuda"), "NCCL would take it for a hang"
        self.awake = False

    def log_tail(self) -> str:
        assert not self.closed, "a node forgets the log of ranks that it has closed"
        return "the log's last line"

    def end(self) -> None:
        assert not self.closed

    def close(self) -> None:
        self._take(-self.taken)
        self.closed = True

    def _take(self, share: int) -> None:
        """Take, or give back, so many times the script's memory of every GPU, as far as there is any."""
        nvml, size = self.script.get("takes", (None, 0))
        for uuid in nvml.used if nvml and share else ():
            if nvml.used[uuid] + share * size > nvml.nvmlDeviceGetMemoryInfo(uuid).total:
                raise LaunchFailed("oom", "CUDA out of memory")
            nvml.used[uuid] += share * size
        self.taken += share

    def _answer(self, request: object, rank: int) -> Any:
        match request:
            case Build():
                wanted = self.script.get("with_dropout", 1) if self.spec.dropout else 1
                self._take(wanted - self.taken)
                return Built(
                    **self._figures(5.0 + rank, rank) | {"host_peak_bytes": 100 << 20},
                    attention="sdpa" if self.spec.attention == "best" else self.spec.attention,
                    parameters=1000,
                    trainable_parameters=1000,
                    padding_share=0.25,
                    host_runtime_bytes=50 << 20,
                    host_runtime_anonymous_bytes=40 << 20,
                    import_seconds=1.5,
                    weights="",
                    library="onnxruntime" if self.spec.engine == "ortmodule" else "torch",
                )
            case TakeFirstStep():
                return FirstStepTaken(
                    **self._block(1, rank),
                    is_random=self.script.get("random", False),
                    proof=self._proof(),
                    weights_bytes=4000,
                    optimizer_state_bytes=8000,
                )
            case TimeBlock(steps=steps, times=times):
                self.filled = max(1.0, times * self.spec.micro_batch / self.script.get("filled_at", math.inf))
                self._take(max(0, times - self.taken))
                return BlockTimed(**self._block(steps, rank))
            case UseBatches():
                return Done()
            case _ if type(request) in find_answers():
                return OF_STUDIES[type(request)](self, request, rank)
            case WriteExpectedTensors():
                absent = self.script.get("no_expected_tensors", "")
                expected = {} if absent else EXPECTED
                return ExpectedTensorsWritten(
                    expected=expected, absent=absent, batches=[0, 1], trained=[0, 1]
                )
            case ComputeLosses(numbers=numbers, weights=weights):
                of = "late" if weights else self.spec.precision.name
                losses = self.script.get("batch_losses", {})
                return LossesComputed(losses=[losses.get((of, one, rank), 2.5) for one in numbers[rank]])
            case TrainForParity(steps=steps):
                return ParityTrained(
                    losses=[self.script.get("loss", 2.0)] * steps,
                    gradient_norms=[self.script.get("gradient_norm", 0.5)] * steps,
                    seconds=[3 * self.script["step_seconds"]] * steps,  # three train side by side
                    differences=self.script.get("differences", {}).get(self.spec.precision.name, {}),
                    proof=self._proof(),
                )
        raise AssertionError(f"{request} has no answer")

    def _proof(self) -> dict[str, Any]:
        frozen = self.script.get("frozen")
        return {"ran": True} if frozen is None else {"ran": True, "engine": {"frozen": frozen}}

    def _block(self, steps: int, rank: int) -> dict[str, Any]:
        """The fields of `BlockTimed`."""
        slower = self.filled * self.script.get("launches", {}).get(self.launch, 1.0)
        extra = self.script.get("second_step", 0.0) * (self.steps - steps == 1)  # in steps
        seconds = self.script["step_seconds"] * (steps + extra) * (1 + rank / 100) * slower
        nth = self.counts.get("block")
        disturbed = self.script.get("disturbed", {}).get((self.launch, nth), 0.0)
        micro_batches = steps * self.spec.passes
        samples = micro_batches * self.spec.samples_per_pass
        return {
            **self._figures(seconds, rank),
            "micro_batches": micro_batches,
            "samples": samples,
            "tokens": None if self.spec.seq_len is None else samples * self.spec.seq_len,
            **self.script.get("trained", {}).get((rank, nth), {}),
            "losses": [self._step_loss(step) for step in range(self.steps - steps, self.steps)],
            "loader_seconds": None,
            "loss_scale": None,
            "skipped_steps": self.script.get("skipped", {}).get((self.launch, nth)),
            "other_cpu_seconds": seconds * disturbed,
            "allocator_retries": int(self.spec.micro_batch > self.script.get("fits_at_once", 1 << 30)),
        }

    def _step_loss(self, step: int) -> float:
        """Of this step of a launch, from 0."""
        if step >= self.script.get("changes_at", step + 1):
            return 3.0
        return float(self.script.get("block_loss", 2.0))

    def _figures(self, seconds: float, rank: int) -> dict[str, Any]:
        return {
            "seconds": seconds,
            "cpu_seconds": seconds * self.script.get("cpu_share", 1.0),
            "other_cpu_seconds": 0.0,
            "stolen_seconds": 0.0,
            "page_faults": 3 if self.script.get("settled", True) else 9999,
            "cpu_clock_mhz": None,
            "cpu_throttles": None,
            "host_peak_bytes": 200 << 20,
            "host_anonymous_peak_bytes": 150 << 20,
            "torch_peak_allocated_bytes": None,
            "torch_peak_reserved_bytes": None,
            "device_used_bytes": next(iter(self.script["takes"][0].used.values()), None)
            if "takes" in self.script
            else None,
            "device_process_bytes": None,
            "energy_joules": None,
            "device_ends": self.script.get("device_ends", ()),
            "absent": {"device": "there is no GPU", f"rank {rank}": "so it says"},
        }


def starter(scripts: dict[str, Script], started: list[FakeGroup]) -> Callable[..., FakeGroup]:
    """What a Comparison takes as `start_group`; every group that it starts is appended to `started`."""

    def start(spec: WorkerSpec, *, world_size: int, folder: Path, **_: Any) -> FakeGroup:
        group = FakeGroup(scripts[spec.backend], spec, world_size, folder, started)
        started.append(group)
        return group

    return start
