"""What needs an NVIDIA GPU: `make test-gpu`. What needs two of them is skipped on one.

Functions whose name begins with an underscore run in a process of their own, so that what one leaves on the
GPU is not seen by the next.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pandas as pd
import pytest

from bench.machine.gpus import visible_gpus
from bench.setup import stacks

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
GIB = 2**30
MIB = 2**20
T = TypeVar("T")

COMMAND_LINE = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("hydra", "omegaconf")), reason="hydra-core is not installed"
)
DEEPSPEED = find_spec("deepspeed") is not None


def apart(function: Callable[..., T], *arguments: Any) -> T:
    """What the function returns in a fresh process; cuda:0 is the first GPU as NVML counts."""
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


# --- the figures ----------------------------------------------------------------------------------------


def _identities() -> list[tuple[str, str, int]]:
    import torch

    found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return [(f"GPU-{one.uuid}", one.name, one.total_memory) for one in found]


def test_a_rank_s_cuda_device_is_the_one_that_nvml_reads() -> None:
    gpus = visible_gpus()
    if gpus[0].uuid.startswith("MIG-"):
        pytest.skip("CUDA tells another name of a MIG slice")
    found = apart(_identities)
    assert [(uuid, name) for uuid, name, _ in found] == [(gpu.uuid, gpu.name) for gpu in gpus]
    for gpu, (_, _, total) in zip(gpus, found, strict=True):
        assert total == pytest.approx(gpu.memory_total_bytes, rel=0.05)


def test_a_device_is_found_by_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    last = visible_gpus()[-1]
    if last.uuid.startswith("MIG-"):
        pytest.skip("CUDA tells another name of a MIG slice")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", last.uuid)
    assert [gpu.uuid for gpu in visible_gpus()] == [last.uuid]
    assert [uuid for uuid, _, _ in apart(_identities)] == [last.uuid]


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


def test_nvml_s_used_memory_grows_as_torch_s_reserved() -> None:
    found = apart(_memory, visible_gpus()[0].uuid)
    used, _, reserved = (
        after - before if after else 0 for before, after in zip(found["before"], found["after"], strict=True)
    )
    assert reserved == GIB
    assert used == pytest.approx(GIB, abs=32 * MIB)


def test_the_driver_books_on_a_process_what_it_holds_or_says_why_not() -> None:
    found = apart(_memory, visible_gpus()[0].uuid)
    (_, before, _), (_, after, reserved) = found["before"], found["after"]
    if after is None:
        assert "device_process_bytes" in found["absent"]
        return
    assert after - before == pytest.approx(GIB, abs=32 * MIB)
    assert after > reserved


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

    from bench.worker.training import Training

    training = cast(Any, object.__new__(Training))
    training.spec = SimpleNamespace(slowed_by=0.0)
    training.device = torch.device("cuda", 0)
    torch.cuda.set_device(training.device)
    torch.distributed.init_process_group(
        "nccl",
        init_method=f"file://{tempfile.mkdtemp()}/meeting",
        rank=0,
        world_size=1,
        device_id=training.device,
    )
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
    """Seconds of a block of kernels that do nothing, of the kernels alone, and of launching them alone."""
    import torch

    from bench.worker.torch_rank import TorchRank
    from tests.support.configs import a_spec

    training, steps, cycles = _a_training(), 5, 10**8
    training.feed = SimpleNamespace(waited=lambda: None, steps=lambda count: [[]] * count)
    training.sharding = SimpleNamespace(skipped_steps=lambda: None, loss_scale=lambda: None)
    training._skipped_before = 0

    def sleep(_: object) -> Any:
        torch.cuda._sleep(cycles)
        return torch.ones((), device=training.device)

    training._step = sleep
    rank = TorchRank(replace(a_spec(), device="cuda"), rank=0, local_rank=0)
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
    return {
        "block": rank.block(steps=steps).seconds,
        "kernels": begin.elapsed_time(end) / 1000,
        "launched": launched,
    }


def test_a_block_lasts_until_its_last_kernel_has_ended() -> None:
    found = apart(_sleeping_block)
    assert found["launched"] < 0.2 * found["kernels"], "without waiting it would seem to be over by then"
    # The clock frequency, in which a kernel sleeps, may change a little between the two.
    assert found["block"] == pytest.approx(found["kernels"], rel=0.15)


def _rates() -> dict[str, float]:
    """FLOP/s of every precision, as device_of sets it up."""
    import torch

    from bench.config.training import Precision
    from bench.worker import engines, products
    from bench.worker.training import device_of
    from bench.worker.workload.precision import AMPERE
    from tests.support.configs import a_spec

    found: dict[str, float] = {}
    if torch.cuda.get_device_capability() < AMPERE:
        return found
    for name in ("fp32", "tf32", "bf16"):
        spec = replace(a_spec(), device="cuda", precision=Precision(name=name), device_uuids=("MIG-",))
        device = device_of(spec, 0)
        timed, _ = products.time_products(
            engines.make("eager").prepare_product,
            [],
            device,
            name,
            synchronize=torch.cuda.synchronize,
            barrier=torch.cuda.synchronize,
        )
        found[name] = max(one.flops / one.seconds for one in timed)
    return found


def test_fp32_is_not_tf32_in_secret() -> None:
    rates = apart(_rates)
    if not rates:
        pytest.skip("this GPU has neither TF32 nor bf16")
    assert 2 * rates["fp32"] < rates["tf32"] < rates["bf16"]


def _status_of_no_memory() -> tuple[str, str]:
    import torch

    from bench.worker.torch_rank import TorchRank
    from tests.support.configs import a_spec

    try:
        torch.empty(2**50, dtype=torch.uint8, device="cuda")
    except Exception as error:
        return TorchRank(a_spec(), rank=0, local_rank=0).status_of(error), str(error)
    return "", "a PiB fits"


def test_cuda_s_want_of_memory_is_an_oom() -> None:
    status, message = apart(_status_of_no_memory)
    assert status == "oom", message


# --- the command itself ---------------------------------------------------------------------------------


def bench(folder: Path, *overrides: str) -> tuple[subprocess.CompletedProcess[str], pd.DataFrame]:
    """Run `python -m bench` on one GPU and a tiny model; what it printed, and its rows."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench", f"hydra.searchpath=[file://{ROOT}/tests/conf]"),
            *("device=cuda", "device.world_size=1", "model=bert-for-tests", "measure=quick"),
            *(
                "measure.launches=1",
                "measure.rounds=2",
                "measure.block_seconds=0.5",
                "measure.warmup_steps=2",
                "measure.preheat_s=1",
            ),
            *(f"results_dir={folder}/results", f"reports_dir={folder}/reports"),
            *overrides,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    written = [*(folder / "results").glob("*.csv")]
    assert len(written) == 1, done.stdout + done.stderr
    return done, pd.read_csv(written[0])


def records(folder: Path, backend: str) -> list[dict[str, Any]]:
    """What a backend's launches left, in the order of their numbers."""
    found = sorted((folder / "results" / "runs").glob(f"*/*/*/{backend}/record.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in found]


def backends() -> list[str]:
    """What this stack can run on one GPU, the reference first."""
    found = ["pytorch", "compile"]
    found += ["pytorch_zero1"] if DEEPSPEED else []
    return found + (["ortmodule", "ortmodule_zero1"] if stacks.own() == "ort" else [])


@COMMAND_LINE
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_every_backend_trains_alike_in_16_bits_and_fills_its_row(precision: str, tmp_path: Path) -> None:
    done, rows = bench(
        tmp_path,
        f"precision={precision}",
        f"backend=[{','.join(backends())}]",
        "seq_len=64",
        "micro_batch=32",
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    ok = rows[rows["status"] == "ok"]
    assert set(ok["backend"]) == set(backends()), told
    assert set(ok["precision"]) == {precision}
    for column in (
        *("device_peak_mib", "torch_peak_allocated_mib", "torch_peak_reserved_mib", "energy_j"),
        *("device_baseline_mib", "optimizer_state_bytes", "loss_difference", "roofline_share"),
        *("torch_matmul_flops_per_s", "layers_flops_share"),
    ):
        assert ok[column].notna().all(), column
    assert ok["ort_matmul_flops_per_s"].notna().all() == (stacks.own() == "ort")
    assert (ok["torch_peak_allocated_mib"] <= ok["torch_peak_reserved_mib"]).all()
    assert (ok["torch_peak_reserved_mib"] < ok["device_peak_mib"]).all(), "which holds the context, too"
    assert (ok["device_peak_mib"] < ok["torch_peak_reserved_mib"] + 4096).all()
    assert (ok["device_baseline_mib"] < 1024).all(), "one backend's ranks at a time"
    assert ok["roofline_share"].between(0, 1).all()
    assert {one["config"]["measure"]["resident"] for one in records(tmp_path, "pytorch")} == {"one"}
    (compiled,) = (one for one in records(tmp_path, "compile") if one["proof"])
    assert not compiled["proof"]["engine"]["cuda_graphs"]
    chosen = {
        one["proof"]["optimizer"]["implementation"] for one in records(tmp_path, "pytorch") if one["proof"]
    }
    assert chosen == {"foreach"}, "torch's own choice on a GPU"
    if precision == "fp16":
        assert (ok["skipped_steps"] == 0).all()


@COMMAND_LINE
def test_who_runs_out_of_memory_gets_a_row_and_the_others_go_on(tmp_path: Path) -> None:
    """Eager attention holds 16 x 2 x 32768² scores a layer, 137 GB in the softmax's fp32; sdpa none."""
    done, rows = bench(
        tmp_path,
        *("backend=[pytorch,pytorch_sdpa]", "reference=pytorch_sdpa", "data.lengths=full", "precision=bf16"),
        *("seq_len=32768", "++model.config.max_position_embeddings=32768", "micro_batch=16"),
    )
    told = done.stdout + done.stderr
    assert done.returncode == 1, told
    (failed,) = rows[rows["backend"] == "pytorch"].to_dict("records")
    assert failed["status"] == "oom", told
    assert (rows[rows["backend"] == "pytorch_sdpa"]["status"] == "ok").all(), told


@COMMAND_LINE
def test_the_largest_batch_is_found_where_the_memory_ends(tmp_path: Path) -> None:
    done, rows = bench(
        tmp_path,
        *("backend=[pytorch]", "measure.batch=max", "measure.most_trials=5", "data.lengths=full"),
        *("seq_len=4096", "++model.config.max_position_embeddings=4096", "micro_batch=64"),
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    (size,) = set(rows["micro_batch"])
    trials = records(tmp_path, "pytorch")[-1]["trials"]
    assert size in {one["micro_batch"] for one in trials if one["fits"]}, told
    too_large = [one for one in trials if not one["fits"]]
    assert too_large, told
    assert all("out of memory" in one["message"] for one in too_large)
    # Half of the memory at least is used, or the search has ended too early.
    assert rows["torch_peak_reserved_mib"].max() > 0.5 * visible_gpus()[0].memory_total_bytes / MIB


@COMMAND_LINE
def test_two_gpus_train_as_one_group_over_nccl(tmp_path: Path) -> None:
    if len(visible_gpus()) < 2:
        pytest.skip("one GPU: NCCL between two was not tried")
    names = [name for name in backends() if name != "compile"]
    done, rows = bench(tmp_path, "device.world_size=2", f"backend=[{','.join(names)}]", "precision=bf16")
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    ok = rows[rows["status"] == "ok"]
    assert set(ok["backend"]) == set(names), told
    assert (ok["world_size"] == 2).all()
    states = ok.groupby("backend")["optimizer_state_bytes"].max()
    if DEEPSPEED:
        assert states["pytorch_zero1"] < 0.6 * states["pytorch"]
