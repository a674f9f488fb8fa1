"""What is inside a timed block and what is not, with a clock that only moves when told to."""

import dataclasses
import mmap
import resource
import socket
import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast, get_args, get_type_hints

import pytest

from bench.errors import LaunchFailed, UserError
from bench.launch import messages
from bench.launch.channel import Channel
from bench.launch.messages import Answer, Build, Built, Done, End, Failed, Request, UseBatches, decoder_of
from bench.machine.hardware import memory_bytes
from bench.machine.telemetry import host_memory
from bench.machine.telemetry.gpu_meter import GpuMeter, GpuSample
from bench.machine.telemetry.rank_meter import RankMeter
from bench.worker.rank import rank as rank_module
from bench.worker.rank.error_words import in_a_line
from bench.worker.rank.rank import Rank, serve, size_of
from tests.support.configs import a_spec
from tests.support.fake_nvml import A, FakeNvml
from tests.support.fakes import FakeClock, FakeTraining


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def rank(clock: FakeClock) -> Rank:
    made = Rank(a_spec(), rank=0, local_rank=0, clock=clock)
    made.training = cast(Any, FakeTraining(clock, step_seconds=0.5, sync_seconds=0.25))
    return made


def test_a_block_s_seconds_are_its_steps_and_the_last_synchronisation(rank: Rank) -> None:
    assert rank.block(steps=4).seconds == 4 * 0.5 + 0.25


def test_batches_barrier_and_reading_the_losses_stay_outside_the_clock(rank: Rank) -> None:
    answer = rank.block(steps=2, untimed=3)
    assert cast(Any, rank.training).log == [
        *["make batch"] * 5,
        *["step"] * 3,
        "synchronize",  # so that the energy of untimed steps is not the block's
        "reset peaks",
        "synchronize",
        "barrier",
        "step",
        "step",
        "synchronize",
        "read losses",
    ]
    assert answer.losses == [2.5] * 5
    assert answer.seconds == 1.25
    assert rank.steps_taken == 5
    assert (answer.micro_batches, answer.samples, answer.tokens) == (2, 8, 128)


@pytest.mark.parametrize(
    ("shapes", "size"),
    [
        ({"attention_mask": (4, 16), "input_ids": (4, 16)}, (4, 64)),
        ({"input_ids": (4, 3, 16)}, (4, 64)),  # of several choices, those of one
        ({"pixel_values": (4, 3, 8, 8), "labels": (4,)}, (4, None)),
        ({"input_ids": (4,)}, (4, None)),  # of the user's module
    ],
)
def test_samples_and_tokens_are_counted_from_the_shapes(
    shapes: dict[str, tuple[int, ...]], size: tuple[int, int | None]
) -> None:
    micro_batch = {name: SimpleNamespace(shape=shape) for name, shape in shapes.items()}
    assert size_of(micro_batch) == size


def test_the_gpu_is_looked_at_before_and_after_a_block_and_never_within(
    rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    rank.meter = RankMeter(GpuMeter(A))
    log, look = cast(Any, rank.training).log, rank.meter.device.sample
    read = rank.meter.device.energy_joules

    def sample() -> GpuSample:
        log.append("look")
        return look()

    def energy() -> float | None:
        log.append("read energy")
        return read()

    monkeypatch.setattr(rank.meter.device, "sample", sample)
    monkeypatch.setattr(rank.meter.device, "energy_joules", energy)
    answer = rank.block(steps=1)
    assert log == [
        "make batch",
        "look",
        "read energy",  # before the barrier: ranks queue for the driver
        "reset peaks",
        "synchronize",
        "barrier",
        "step",
        "synchronize",
        "read energy",
        "look",
        "read losses",
    ]
    assert [end.sm_clock_mhz for end in answer.device_ends] == [1755, 1755]


def test_what_a_cpu_tells_is_real_and_what_cannot_be_had_there_is_none(rank: Rank) -> None:
    answer = rank.block(steps=1)
    unknown = (answer.torch_peak_allocated_bytes, answer.device_used_bytes, answer.energy_joules)
    assert unknown == (None, None, None)
    assert answer.other_cpu_seconds is not None
    assert abs(answer.other_cpu_seconds) < 60
    assert answer.stolen_seconds is not None
    assert answer.stolen_seconds >= 0
    assert 0 <= answer.cpu_seconds < 60
    assert answer.host_peak_bytes is not None
    assert answer.host_peak_bytes > 1 << 20


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError(), "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …"), "oom"),
        (LaunchFailed("fallback", "PyTorch ran"), "fallback"),
        (ValueError("what"), "crashed"),
    ],
)
def test_an_exception_becomes_a_status(error: Exception, status: str) -> None:
    assert Rank(a_spec(), rank=0, local_rank=0).status_of(error) == status


@pytest.mark.parametrize(
    ("request_", "sharers"),
    [(messages.Build(), 2), (messages.TrainForParity(steps=1), 6), (messages.TimeBlock(steps=1), 2)],
)
def test_a_rank_takes_its_share_of_the_memory_that_is_left(
    rank: Rank, request_: Any, sharers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank.spec = dataclasses.replace(rank.spec, groups=3, cores=((0,), (1,)))
    asked: list[int] = []

    def limit(sharers: int) -> float:
        asked.append(sharers)
        return 1.5

    monkeypatch.setattr(rank_module, "limit_to_available", limit)
    monkeypatch.setattr(Rank, request_.name, lambda *_, **__: None)
    rank.answer(request_)
    assert asked == [], "what the user has set, or a GPU's rank"
    rank.takes_what_is_left = True
    rank.answer(request_)
    assert (asked, rank.share) == ([sharers], 1.5)


@pytest.mark.parametrize(
    ("left_mib", "sharers", "taken_mib", "fits"),
    [(64, 1, 256, False), (1024, 1, 256, True), (1024, 8, 256, False), (-500, 1, 64, False)],
)
def test_what_is_beyond_the_share_cannot_be_had(
    left_mib: int, sharers: int, taken_mib: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = min(0.1 * memory_bytes(), 4 << 30)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: reserve + (left_mib << 20))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        share = host_memory.limit_to_available(sharers)
        assert share == pytest.approx(max(0, left_mib) / 1024 / sharers, abs=0.001)
        with nullcontext() if fits else pytest.raises(OSError, match="allocate memory"):
            mmap.mmap(-1, taken_mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def test_a_lack_of_memory_says_how_much_there_was(rank: Rank) -> None:
    rank.share = 1.5
    ours, thread, _ = serving(rank)
    cast(Any, rank).build = lambda: bytearray(1 << 60)
    ours.send(Build())
    answer = ours.receive(decoder_of(Answer))
    thread.join()
    assert isinstance(answer, Failed)
    assert (answer.status, answer.message) == (
        "oom",
        "a rank may take 1.5 GiB of the memory that was left: MemoryError: ",
    )


SOURCE = "/onnxruntime_src/orttraining/orttraining/python/orttraining_pybind_state.cc:548"
SIGNATURE = "onnxruntime::python::addObjectMethods(pybind11::module&)::<lambda(Builder*, const Config&)>"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            f"{SOURCE} {SIGNATURE} [ONNXRuntimeError] : 1 : FAIL : This is an invalid model. Error: "
            "Duplicate definition of name (_grad).",
            "RuntimeError: FAIL : This is an invalid model. Error: Duplicate definition of name (_grad).",
        ),
        (
            f"{SOURCE} {SIGNATURE} gradient_builder != nullptr was false. No gradient of Resize.\n",
            "RuntimeError: No gradient of Resize.",
        ),
        (
            f"Traceback (most recent call last):\n  File x.py\nRuntimeError: {SOURCE} {SIGNATURE}{' ' * 300}"
            "[ONNXRuntimeError] : 1 : FAIL : [ShapeInferenceError] Dimension 3 is not 4",
            "RuntimeError: FAIL : [ShapeInferenceError] Dimension 3 is not 4",
        ),
        (
            "Expected to have finished reduction in the prior iteration before starting a new one. This …",
            "some weights get no gradient in some batches, which ranks wait for; set device.world_size=1",
        ),
        ("[ONNXRuntimeError] : 9 : no source file", "RuntimeError: [ONNXRuntimeError] : 9 : no source file"),
    ],
)
def test_a_line_has_onnx_runtimes_reason_and_not_its_c_signature(words: str, line: str) -> None:
    assert in_a_line(RuntimeError(words)) == line


def test_a_refusal_of_several_lines_keeps_them_all_but_a_traceback() -> None:
    assert in_a_line(UserError("no column text\n(raw), label", "rename it")) == (
        "no column text (raw), label; rename it."
    )
    rebuilt = UserError("Traceback:\n  File x.py\nbench.errors.UserError: x.png is damaged.\n")
    assert in_a_line(rebuilt) == "x.png is damaged."


def serving(rank: Any) -> tuple[Channel, threading.Thread, list[int]]:
    ours, theirs = socket.socketpair()
    exits: list[int] = []
    thread = threading.Thread(target=lambda: exits.append(serve(Channel(theirs), rank)), daemon=True)
    thread.start()
    return Channel(ours), thread, exits


def test_a_rank_answers_until_it_is_told_to_end() -> None:
    class Cycling:
        def answer(self, request: UseBatches) -> Done:
            self.count = len(request.numbers[0])
            return Done()

    rank = Cycling()
    channel, thread, exits = serving(rank)
    for count in (1, 2):
        channel.send(UseBatches(numbers=[[*range(count)]]))
        assert channel.receive(decoder_of(Answer)) == Done()
        assert rank.count == count
    channel.send(End())
    thread.join(5)
    assert exits == [0]


def hints(function: Any) -> dict[str, Any]:
    found = get_type_hints(function)
    return {name: hint for name, hint in found.items() if not name.startswith("_")}


OF_THE_CORE = [one for one in Request.__subclasses__() if not one.answered_by]


@pytest.mark.parametrize("request_class", OF_THE_CORE, ids=lambda each: each.__name__)
def test_every_request_has_a_method_that_takes_its_fields_and_returns_its_answer(
    request_class: type[Request[Any]],
) -> None:
    name = str(request_class.__struct_config__.tag)
    fields = {field: hint for field, hint in hints(request_class).items() if field != "answered_by"}
    (answer,) = get_args(request_class.__orig_bases__[0])  # type: ignore[attr-defined]
    if request_class is End:
        assert answer is type(None), "nobody waits for it"
        return
    assert hints(getattr(Rank, name)) == fields | {"return": answer}


def test_a_rank_ends_when_the_coordinator_does() -> None:
    channel, thread, exits = serving(object())
    channel.close()
    thread.join(5)
    assert exits == [1]


def test_a_failing_request_is_reported_and_ends_the_rank(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(Rank):
        def __init__(self) -> None:
            pass

        def build(self) -> Built:
            raise ValueError("no model")

    channel, thread, exits = serving(Broken())
    channel.send(Build())
    failed = channel.receive(decoder_of(Answer))
    thread.join(5)
    assert isinstance(failed, Failed)
    assert failed.status == "crashed"
    assert failed.message == "ValueError: no model"
    assert "Traceback" in failed.details
    assert exits == [1]
    assert "no model" in capsys.readouterr().err
