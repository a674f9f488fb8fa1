"""What happens on GPUs: on pretended ones, or with `make test-gpu` on those of this machine.

Functions whose name begins with an underscore run in a process of their own, so that what one leaves on the
GPU is not seen by the next.
"""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pandas as pd
import pytest

from bench.machine.gpus import visible_gpus
from bench.results import csv_files
from bench.results.columns import HASHES
from bench.results.side_files import DESCRIBED
from bench.setup import stacks
from bench.setup.checkout import ROOT
from tests.support import pretended_gpu
from tests.support.configs import TINY_MODEL
from tests.support.interruptions import of_kind
from tests.support.pretended_gpu.nvml import CONTEXT, PretendedNvml

GIB = 2**30
MIB = 2**20
T = TypeVar("T")

DEEPSPEED = find_spec("deepspeed") is not None

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["bench.worker.rank.rank", "bench.worker.rank.training"])
"""For pretended GPUs alone: what is imported may look for GPUs, after which no fork can use a real one."""


@pytest.fixture(scope="module", autouse=True)
def is_pretended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[bool]:
    """Whether this module's processes see two pretended GPUs, and not this machine's."""
    if request.config.getoption("--real-gpu"):
        yield False
        return
    with pytest.MonkeyPatch.context() as patched:
        variables = pretended_gpu.variables(tmp_path_factory.mktemp("gpus"), 2, memory_mib=2048)
        for name, value in variables.items():
            patched.setenv(name, value)
        patched.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patched.setitem(sys.modules, "pynvml", PretendedNvml())
        yield True


def apart(function: Callable[..., T], *arguments: Any) -> T:
    """What the function returns in a process of its own; cuda:0 is the first GPU as NVML counts."""
    variables = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    pretended = pretended_gpu.COUNT in os.environ
    with ProcessPoolExecutor(1, FORKED if pretended else multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_call, variables, function, *arguments).result()


def _call(variables: dict[str, str], function: Callable[..., T], *arguments: Any) -> T:
    os.environ.clear()
    os.environ.update(variables)
    return function(*arguments)


# --- the figures ----------------------------------------------------------------------------------------


def _identities() -> list[tuple[str, str, int]]:
    import torch

    found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return [(f"GPU-{one.uuid}", one.name, one.total_memory) for one in found]


def test_a_rank_s_cuda_device_is_the_one_that_nvml_reads_and_is_found_by_its_uuid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpus = visible_gpus()
    found = apart(_identities)
    assert [(uuid, name) for uuid, name, _ in found] == [(gpu.uuid, gpu.name) for gpu in gpus]
    for gpu, (_, _, total) in zip(gpus, found, strict=True):
        assert total == pytest.approx(gpu.memory_total_bytes, rel=0.05)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus[-1].uuid)
    assert [gpu.uuid for gpu in visible_gpus()] == [gpus[-1].uuid]
    assert [uuid for uuid, _, _ in apart(_identities)] == [gpus[-1].uuid]


def _memory(uuid: str) -> dict[str, Any]:
    """Before and after one GiB, as NVML and as torch see it."""
    import torch

    from bench.machine.telemetry.gpu_meter import GpuMeter

    device = GpuMeter(uuid)
    torch.zeros(1, device="cuda")  # the context

    def seen() -> tuple[int | None, int | None, int]:
        torch.cuda.synchronize()
        return device.used_bytes(), device.process_bytes(), torch.cuda.memory_reserved()

    before = seen()
    kept = torch.zeros(GIB, dtype=torch.uint8, device="cuda")
    after = seen()
    del kept
    return {"before": before, "after": after, "absent": dict(device.absent)}


def test_memory_grows_alike_for_nvml_torch_and_the_driver_which_books_it_on_the_process() -> None:
    found = apart(_memory, visible_gpus()[0].uuid)
    (used, booked, reserved), (used_after, booked_after, reserved_after) = found["before"], found["after"]
    assert reserved_after - reserved == GIB
    assert used_after - used == pytest.approx(GIB, abs=32 * MIB)
    if booked_after is None:
        assert "device_process_bytes" in found["absent"]
        return
    assert booked_after - booked == pytest.approx(GIB, abs=32 * MIB)
    assert booked_after > reserved_after


def _energy(uuid: str) -> tuple[float | None, float, float]:
    """Joules of two seconds of matrix products, the seconds, and the watts at their end."""
    import torch

    from bench.machine.telemetry.gpu_meter import GpuMeter

    device = GpuMeter(uuid)
    one = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
    torch.cuda.synchronize()
    before, start = device.energy_joules(), time.perf_counter()
    while time.perf_counter() < start + 2:
        torch.mm(one, one)
        torch.cuda.synchronize()
    watts = device.sample().power_watts
    after = device.energy_joules()
    joules = None if before is None or after is None else after - before
    return joules, time.perf_counter() - start, watts or 0.0


@pytest.mark.gpu
def test_the_energy_counter_grows_by_about_power_times_time() -> None:
    joules, seconds, watts = apart(_energy, visible_gpus()[0].uuid)
    if joules is None:
        pytest.skip("this GPU has no energy counter")
    assert 0.3 * watts * seconds < joules < 1.5 * watts * seconds


# --- peaks and clocks -----------------------------------------------------------------------------------


def _a_training() -> Any:
    """A Training without a model, on cuda:0, in a process group of one rank."""
    import tempfile

    import torch

    from bench.worker.rank.training import Training

    training = cast(Any, object.__new__(Training))
    training.spec = SimpleNamespace(slowed_by=0.0)
    training.absent = {}
    training.device, training._on_cuda = torch.device("cuda", 0), True
    torch.cuda.set_device(training.device)
    meeting = f"file://{tempfile.mkdtemp()}/meeting"
    torch.distributed.init_process_group("nccl", meeting, rank=0, world_size=1, device_id=training.device)
    return training


def _peaks() -> dict[str, tuple[int | None, int | None]]:
    import torch

    training = _a_training()
    found = {}
    small = torch.zeros(64 * MIB, dtype=torch.uint8, device=training.device)
    torch.zeros(GIB, dtype=torch.uint8, device=training.device)  # gone at once, and kept by the allocator
    found["first phase"] = training.torch_peaks()
    training.reset_peaks()
    found["second phase"] = training.torch_peaks()
    training.free_cached()
    training.reset_peaks()
    found["third phase"] = training.torch_peaks()
    del small
    return found


def test_a_phase_s_peaks_are_its_own() -> None:
    found = apart(_peaks)
    (a1, r1), (a2, r2), (a3, r3) = (cast(tuple[int, int], peaks) for peaks in found.values())
    assert a1 >= GIB + 64 * MIB
    assert r1 >= a1
    assert 64 * MIB <= a2 < 128 * MIB, "allocated is what lives"
    assert r2 == r1, "reserved holds what torch keeps …"
    assert r3 < 128 * MIB, "… until it is told to give it back"
    assert a3 == a2


def _sleeping_block() -> dict[str, float]:
    """Seconds of a block of kernels that do nothing, of the kernels alone, and of launching them alone.

    And of a block at whose end nobody waits for the GPU.
    """
    import torch

    from bench.worker.rank.rank import Rank
    from tests.support.configs import a_spec

    training, steps, cycles = _a_training(), 5, 10**8
    one_step = [{"input_ids": torch.ones(1, 1)}]
    training.feed = SimpleNamespace(waited=lambda: None, steps=lambda count: [one_step] * count)
    training._skipped_before = 0

    def sleep(_: object) -> Any:
        torch.cuda._sleep(cycles)
        return torch.ones((), device=training.device)

    training.sharding = SimpleNamespace(skipped_steps=lambda: None, loss_scale=lambda: None, step=sleep)
    rank = Rank(replace(a_spec(), device="cuda"), rank=0, local_rank=0)
    rank.training = training
    rank.block(steps=1)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    start = time.perf_counter()
    for _ in range(steps):
        torch.cuda._sleep(cycles)
    launched = time.perf_counter() - start
    end.record()
    end.synchronize()
    found = {
        "block": rank.block(steps=steps).seconds,
        "kernels": begin.elapsed_time(end) / 1000,
        "launched": launched,
    }
    training.synchronize = lambda: None
    return found | {"not waited for": rank.block(steps=steps).seconds}


@pytest.mark.time
def test_a_block_lasts_until_its_last_kernel_has_ended() -> None:
    found = apart(_sleeping_block)
    assert found["launched"] < 0.2 * found["kernels"], "without waiting it would seem to be over by then"
    # The clock frequency, in which a kernel sleeps, may change a little between the two.
    assert found["block"] == pytest.approx(found["kernels"], rel=0.15)
    assert found["not waited for"] < 0.2 * found["kernels"]


def _rate(precision: str) -> float | None:
    """FLOP/s of matrix products in it, as device_of sets it up, which a process can do once."""
    import torch

    from bench.config.training import Precision
    from bench.worker import engines
    from bench.worker.rank.training import device_of
    from bench.worker.workload.precision import AMPERE
    from tests.support.configs import a_spec

    if torch.cuda.get_device_capability() < AMPERE:
        return None
    uuids = tuple(gpu.uuid for gpu in visible_gpus())
    spec = replace(a_spec(), device="cuda", precision=Precision(name=precision), device_uuids=uuids)
    training: Any = SimpleNamespace(
        engine=engines.make("eager"),
        spec=spec,
        device=device_of(spec, 0),
        synchronize=torch.cuda.synchronize,
        barrier=torch.cuda.synchronize,
    )
    timed, _ = import_module("bench.studies.limit.products").time_products(training, [])
    return float(max(one.flops / one.seconds for one in timed))


@pytest.mark.gpu
def test_fp32_is_not_tf32_in_secret() -> None:
    fp32, tf32, bf16 = (apart(_rate, precision) for precision in ("fp32", "tf32", "bf16"))
    if fp32 is None or tf32 is None or bf16 is None:
        pytest.skip("this GPU has neither TF32 nor bf16")
    assert 2 * fp32 < tf32 < bf16


def _status_of_no_memory() -> tuple[str, str]:
    import torch

    from bench.worker.rank.rank import Rank
    from tests.support.configs import a_spec

    try:
        torch.empty(2**50, dtype=torch.uint8, device="cuda")
    except Exception as error:
        return Rank(a_spec(), rank=0, local_rank=0).status_of(error), str(error)
    return "", "a PiB fits"


def test_cuda_s_want_of_memory_is_an_oom() -> None:
    status, message = apart(_status_of_no_memory)
    assert status == "oom", message


# --- the command itself ---------------------------------------------------------------------------------


def bench(folder: Path, *overrides: str, status: int = 0) -> tuple[str, pd.DataFrame]:
    """Run `python -m bench` on one GPU and a tiny model; its words and its rows."""
    with running(folder, *overrides) as done:
        printed, _ = done.communicate()
    assert done.returncode == status, printed
    logs = {path: path.read_text() for path in (folder / "results").rglob("log.txt")}
    assert not [path for path, log in logs.items() if "are not forked" in log]
    return printed, rows_in(folder)


@contextmanager
def running(folder: Path, *overrides: str) -> Iterator["subprocess.Popen[str]"]:
    """Start it; blocks count however busy other processes keep the cores. A test that fails ends it."""
    short = (
        *("launches=1", "rounds=2", "block_seconds=0.05", "min_steps=2", "block_warmup_s=0.01"),
        *("warmup_steps=2", "preheat_s=0.5", "wait_s=0"),
    )
    command = (
        *(sys.executable, "-m", "tests.support.on_any_machine"),
        *(["--forked"] if pretended_gpu.COUNT in os.environ else []),
        *("bench", *TINY_MODEL),
        *("device=cuda", "device.world_size=1", "device.threads=1", *(f"measure.{each}" for each in short)),
        *(f"results_dir={folder}/results", f"reports_dir={folder}/reports", *overrides),
    )
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def rows_in(folder: Path, kind: str = "") -> pd.DataFrame:
    """The rows of the only results file, or of the one beside it of this kind."""
    written = [path for path in (folder / "results").glob("*.csv") if path.stem.partition(".")[2] == kind]
    assert len(written) == 1, f"results has {len(written)} files of the kind {kind!r}"
    if not kind:
        return csv_files.read(written[0])
    rows = pd.read_csv(written[0], dtype=HASHES)  # what the row above says is left out
    rows[list(DESCRIBED)] = rows[list(DESCRIBED)].ffill()
    return rows


def records(folder: Path, backend: str) -> list[dict[str, Any]]:
    """What a backend's launches left, in the order of their numbers."""
    found = sorted((folder / "results" / "runs").glob(f"*/*/*/{backend}/record.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in found]


def fitting(*names: str) -> list[str]:
    """Those of these backends that this stack can run."""
    known = {"ort": stacks.own() == "ort", "zero": DEEPSPEED}
    return [name for name in names if all(there or word not in name for word, there in known.items())]


def listed(*names: str) -> str:
    """Those of these backends that this stack can run, as an override."""
    return f"backend=[{','.join(fitting(*names))}]"


MISSION = ("pytorch", "pytorch_best", "ortmodule", "ortmodule_zero1")
IN_16_BITS = {
    "bf16": ("pytorch", "compile", "ortmodule"),
    "fp16": ("pytorch", "pytorch_zero1", "ortmodule_zero1"),
}
FIGURES = (
    *("device_peak_mib", "torch_peak_allocated_mib", "torch_peak_reserved_mib", "energy_j"),
    *("device_baseline_mib", "optimizer_state_bytes", "loss_difference", "roofline_share"),
    "torch_matmul_flops_per_s",
)


def check_rows(rows: pd.DataFrame) -> None:
    """Every backend has its figures, and they fit to each other."""
    assert (rows["status"] == "ok").all(), rows[["backend", "status", "message"]]
    for column in FIGURES:
        assert rows[column].notna().all(), column
    assert (rows["torch_peak_allocated_mib"] <= rows["torch_peak_reserved_mib"]).all()
    assert (rows["torch_peak_reserved_mib"] < rows["device_peak_mib"]).all(), "which holds the context, too"
    if "PYTEST_XDIST_WORKER" not in os.environ:  # with `-n 4` other tests hold memory of the same GPU
        assert (rows["device_peak_mib"] < rows["torch_peak_reserved_mib"] + 4096).all()
        assert (rows["device_baseline_mib"] < 1024).all(), "one backend's ranks at a time"
    assert rows["roofline_share"].between(0, 1).all()


def check_breakdown(folder: Path, rows: pd.DataFrame) -> None:
    """Of every backend each moment of a step has one kind, and the GPU has worked on all that a step has."""
    parts = rows_in(folder, "breakdown")
    assert set(parts["backend"]) == set(rows["backend"])
    assert (parts["seconds_per_step"] >= 0).all()
    for (backend, _), of_round in parts.groupby(["backend", "round"]):
        seconds = of_round["seconds_per_step"].sum()
        assert seconds == pytest.approx(of_round["profiled_step_s"].iloc[0], rel=1e-4), backend
        assert of_round[of_round["operator"] != "host"]["seconds_per_step"].sum() > 0, "the GPU works"
    communicates = {"communication"} if rows["world_size"].iloc[0] > 1 else set()
    for backend, of_backend in parts.groupby("backend"):
        by_kind = of_backend.groupby("kind")["seconds_per_step"].sum()
        for kind in {"matrix products", "normalisation", "optimizer", "elementwise"} | communicates:
            assert by_kind.get(kind, 0) > 0, (backend, kind, by_kind)
        assert by_kind.get("other", 0) < 0.1 * by_kind.sum(), (backend, by_kind)


ZERO1 = "pytorch_zero1" if stacks.own() == "modern" else "ortmodule_zero1"


def test_the_default_comparison_fills_every_row_and_explains_itself(
    tmp_path: Path, is_pretended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, names = 2 if is_pretended else len(visible_gpus()), {*MISSION, ZERO1}
    if is_pretended:
        monkeypatch.setenv(pretended_gpu.FAULTS, "deferred")
    explains = stacks.own() == "ort" or not is_pretended  # the events of a pretended GPU are of no stack
    words = (listed(*names), "precision=fp32", f"measure.explain={str(explains).lower()}")
    _, rows = bench(tmp_path, f"device.world_size={ranks}", *words)
    check_rows(rows)
    assert set(rows["backend"]) == set(fitting(*names))
    assert (rows["world_size"] == ranks).all()
    assert (rows.groupby("backend")["position"].nunique() == 2).all(), "they take turns"
    assert rows["ort_matmul_flops_per_s"].notna().all() == (stacks.own() == "ort")
    if explains:
        check_breakdown(tmp_path, rows)
    states = rows.groupby("backend")["optimizer_state_bytes"].max()
    whole = 8 * rows["trainable_parameters"].iloc[0]
    for name, held in states.items():
        assert held < 1.2 * whole / (ranks if "zero1" in str(name) else 1), name
    for record in records(tmp_path, "ortmodule_zero1"):
        if proof := record["proof"]:
            assert not proof["sharding"]["overlap_comm"], "in one bucket nothing can be overlapped"
            assert proof["engine"]["providers"][0] == "CUDAExecutionProvider"
            assert proof["optimizer"]["class"].startswith("onnxruntime.training.optim")
    if is_pretended:
        step_s = rows["seconds"] / rows["steps"]
        assert (step_s > pretended_gpu.DEFERRED_SECONDS).all(), "blocks wait for the GPU"
    page = (tmp_path / "reports" / "index.md").read_text(encoding="utf-8")
    assert "pretended" in page if is_pretended else visible_gpus()[0].name in page


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize("precision", [pytest.param("bf16", marks=pytest.mark.gpu), "fp16"])
def test_in_16_bits_backends_train_alike_and_have_collectives(
    precision: str, tmp_path: Path, is_pretended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On three pretended GPUs, among which nothing can be divided evenly. A CPU's bf16 is no GPU's."""
    names = ("pytorch", "pytorch_zero1") if is_pretended else IN_16_BITS[precision]
    ranks, batch, length = (3, 2, 8) if is_pretended else (1, 32, 64)
    if is_pretended:
        monkeypatch.setenv(pretended_gpu.COUNT, str(ranks))
    more = ("measure.collectives=count",) if precision == "fp16" else ()
    _, rows = bench(
        tmp_path,
        *(f"precision={precision}", listed(*names), "measure=quick", f"device.world_size={ranks}"),
        *(f"seq_len={length}", f"micro_batch={batch}", *more),
    )
    check_rows(rows)
    assert set(rows["precision"]) == {precision}
    if precision == "fp16":
        assert (rows["skipped_steps"] == 0).all()
        counted = rows_in(tmp_path, "collectives")
        assert set(counted["status"]) == {"ok"}
        assert "all_reduce" in set(counted["name"])
    if not is_pretended:
        proofs = [one["proof"] for one in records(tmp_path, "pytorch") if one["proof"]]
        chosen = {proof["optimizer"]["implementation"] for proof in proofs}
        assert chosen == {"foreach"}, "torch's own choice on a GPU"
        for one in records(tmp_path, "compile"):
            assert not one["proof"] or not one["proof"]["engine"]["cuda_graphs"]


@pytest.mark.gpu
def test_who_runs_out_of_memory_gets_a_row_and_the_others_go_on(tmp_path: Path) -> None:
    """Eager attention holds 16 x 2 x 32768² scores a layer, 137 GB in the softmax's fp32; sdpa none."""
    printed, rows = bench(
        tmp_path,
        *("backend=[pytorch,pytorch_sdpa]", "reference=pytorch_sdpa", "data.lengths=full", "precision=bf16"),
        *("seq_len=32768", "++model.config.max_position_embeddings=32768", "micro_batch=16", "measure=quick"),
        status=1,
    )
    (failed,) = rows[rows["backend"] == "pytorch"].to_dict("records")
    assert failed["status"] == "oom", printed
    assert (rows[rows["backend"] == "pytorch_sdpa"]["status"] == "ok").all(), printed


def until(line: str, process: "subprocess.Popen[str]") -> list[str]:
    """What a command has printed as soon as a line has these words."""
    assert process.stdout is not None
    printed: list[str] = []
    for printed_line in process.stdout:
        printed.append(printed_line)
        if line in printed_line:
            return printed
    pytest.fail("".join(printed))


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_rank_that_dies_costs_its_backend_alone_and_after_ctrl_c_a_comparison_on_a_gpu_goes_on(
    tmp_path: Path,
) -> None:
    """Others wait meanwhile; what NVML said of the blocks is read again."""
    rounds = 25  # many are left when the signals arrive
    command = (
        *("backend=[pytorch,pytorch_best]", "measure=quick", "measure.explain=false", "precision=fp32"),
        *(f"measure.rounds={rounds}", "measure.block_seconds=0.1"),
    )
    with running(tmp_path, *command) as comparison:
        until(f"round 2/{rounds}", comparison)
        (rank,) = (
            rank
            for rank in of_kind("rank", comparison.pid)
            if Path(f"/proc/{rank}/fd/1").readlink().parent.name == "pytorch_best"  # the log
        )
        os.kill(rank, signal.SIGKILL)
        until(f"round 5/{rounds}", comparison)
        comparison.send_signal(signal.SIGINT)
        printed, _ = comparison.communicate()
    assert comparison.returncode == 130, printed
    rows = rows_in(tmp_path)
    (lost,) = rows[rows["status"] != "ok"].to_dict("records")
    assert (lost["backend"], lost["status"]) == ("pytorch_best", "crashed")
    assert "killed by SIGKILL" in lost["message"]
    kept = rows[rows["backend"] == "pytorch"]
    assert 4 <= len(kept) < rounds
    assert set(kept["status"]) == {"ok"}
    _, rows = bench(tmp_path, *command, "resume=true")
    columns = ["backend", "launch", "round", "seconds"]
    assert len(kept[columns].merge(rows[columns])) == len(kept), "they are as they were"
    assert rows[rows["status"] == "ok"]["backend"].value_counts().min() >= rounds


@pytest.mark.exhaustive
@pytest.mark.once
def test_the_largest_batch_is_found_where_the_memory_ends(
    tmp_path: Path, is_pretended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    length, first, driver = (64, 4, CONTEXT) if is_pretended else (4096, 64, 0)
    if is_pretended:
        monkeypatch.setenv(pretended_gpu.MEMORY, "400")  # MiB
    printed, rows = bench(
        tmp_path,
        *("backend=[pytorch]", "measure.batch=max", "measure.max_trials=5", "data.lengths=full"),
        *(f"seq_len={length}", f"++model.config.max_position_embeddings={length}", f"micro_batch={first}"),
        *("measure=quick", *["precision=fp32"] * is_pretended),  # a CPU's fp16 takes 5 times as long
    )
    (size,) = set(rows["micro_batch"])
    trials = records(tmp_path, "pytorch")[-1]["trials"]
    assert size in {one["micro_batch"] for one in trials if one["fits"]}, printed
    too_large = [one for one in trials if not one["fits"]]
    assert too_large, printed
    assert all("out of memory" in one["message"] for one in too_large)
    # Half of the memory at least is used, or the search has ended too early.
    assert rows["torch_peak_reserved_mib"].max() > 0.5 * (visible_gpus()[0].memory_total_bytes - driver) / MIB


# --- what only a pretended GPU can be asked to do -------------------------------------------------------


@pytest.fixture
def with_fault(is_pretended: bool, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    if not is_pretended:
        pytest.skip("this machine's GPUs do not fail on demand")
    return lambda name: monkeypatch.setenv(pretended_gpu.FAULTS, name)


@pytest.mark.exhaustive
@pytest.mark.once
def test_backends_that_do_not_fit_take_no_turns_throttling_is_in_the_row_and_a_silent_profiler_a_gap(
    with_fault: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_fault("throttled,falling-clock,no-events")
    monkeypatch.setenv(pretended_gpu.MEMORY, "800")  # MiB; a group takes some 400
    printed, rows = bench(tmp_path, "backend=[pytorch,pytorch_fused]", "precision=fp32", "measure.rounds=6")
    check_rows(rows)
    assert rows.groupby("backend")["position"].nunique().tolist() == [1, 1]
    assert "backends run one after the other, since together they may take" in printed
    assert set(rows["gpu_throttled_by"]) == {"power cap"}
    page = (tmp_path / "reports" / "index.md").read_text(encoding="utf-8")  # a terminal shows two warnings
    assert "the GPU held back its clock in 6 of 6 blocks (power cap)" in page
    assert "the GPU's clock was over" in page
    assert "no breakdown of pytorch: " in printed


@pytest.mark.exhaustive
@pytest.mark.once
def test_the_micro_batch_that_fills_a_waiting_gpu_is_found(
    with_fault: Callable[[str], None], tmp_path: Path
) -> None:
    """That it is named on the page, or taken: tests/unit/test_device_fit.py."""
    with_fault("waiting")
    backends = ("backend=[pytorch,pytorch_best]", "precision=fp32", "measure.explain=false")
    printed, rows = bench(tmp_path, *backends, "micro_batch=1")
    (size,) = set(rows["saturating_micro_batch"])
    assert size > 1, printed


rest = pytest.mark.exhaustive


@pytest.mark.ort
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            "no-provider",
            "ONNX Runtime made a session for CPUExecutionProvider, not for CUDAExecutionProvider: "
            "the installed package has no libonnxruntime_providers_cuda.so",
        ),
        pytest.param("no-allocator", "ONNX Runtime's session has gpu_external_alloc=0, not ", marks=rest),
    ],
)
def test_a_session_elsewhere_than_on_torch_s_gpu_is_a_fallback_with_the_reason(
    fault: str, words: str, with_fault: Callable[[str], None], tmp_path: Path
) -> None:
    with_fault(fault)
    untimed = ("measure=parity", "measure.launches=0", "precision=fp32", "backend=[pytorch,ortmodule]")
    _, rows = bench(tmp_path, *untimed, status=1)
    (failed,) = rows[rows["backend"] == "ortmodule"].to_dict("records")
    assert failed["status"] == "fallback"
    assert failed["message"].startswith(words)


def _device_of_the_first_rank() -> str:
    from bench.errors import LaunchFailed
    from bench.worker.rank.training import device_of
    from tests.support.configs import a_spec

    spec = replace(a_spec(), device="cuda", device_uuids=(visible_gpus()[0].uuid,))
    try:
        return str(device_of(spec, 0))
    except LaunchFailed as failure:
        return failure.message


def test_a_rank_refuses_a_gpu_that_is_not_the_one_whose_energy_is_read(
    with_fault: Callable[[str], None],
) -> None:
    assert apart(_device_of_the_first_rank) == "cuda:0"
    with_fault("wrong-uuid")
    assert "memory and energy are read of GPU-" in apart(_device_of_the_first_rank)
