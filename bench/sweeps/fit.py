"""How much of a published model this machine can train in the time there is, from one short trial.

Layers are left out, never width: the layers are where a large model's time goes, and the width decides how
fast its matrix products are. What is predicted here is announced; the results say what came of it.
"""

from pathlib import Path

import msgspec

from bench.config import layers
from bench.config.compose import compose
from bench.config.differences import overrides_of
from bench.config.model import Model
from bench.config.schema import Config
from bench.config.sizes import PUBLISHED
from bench.errors import UserError
from bench.machine.hardware import available_cores
from bench.measure.comparison import measure_comparison
from bench.measure.plan.preflight import check_and_name
from bench.results import csv_files

FOLDER = "runs/trials"  # the folder of the trials' results, in the results folder; trials are no results

PEAKS = ("setup_host_peak_mib", "first_step_host_peak_mib", "host_peak_mib")
"""Columns of the peaks of every phase, for which memory has to suffice."""

SHORT = (
    "backend=[pytorch]",
    "measure.launches=1",
    "measure.rounds=2",
    "measure.block_seconds=0.1",
    "measure.warmup_steps=1",
    "measure.parity_steps=3",
    "measure.explain=false",
    "measure.resident=all",
    "resume=false",
)
"""The overrides of every trial."""

STATE_BYTES = 16
"""Bytes that training keeps of a parameter in fp32: weight, gradient, and Adam's two moments (Rajbhandari et
al. 2020, ZeRO, arXiv:1910.02054, section 3.1, 4 bytes in place of 2 for weight and gradient, no copy)."""

MEMORY_SHARE = 0.8
"""Share of the machine's memory that all ranks together may take; the rest is the system's and the files'."""

ENGINES_PEAK = 1.4
"""Peak of the backend that takes most, over that of eager PyTorch: `ortmodule_zero1` takes 3,354 MiB a rank
where `pytorch` takes 2,489, with 2 of 24 layers of bert-large at micro_batch=1 and seq_len=128; 1.13 with 4
layers at seq_len=256, and 1.23 on BERT-Mini (AMD EPYC, family 26, model 2)."""

START_CPU_S = 9.0
"""CPU seconds of a rank from its start until it is built, on the slowest CPU seen so far: 9 to 10 on an Intel
Xeon (family 6, model 167; `make reproduce MODEL=gpt2,mobilevit-small,roberta-large`, commit 0ead743), 6.5 on
an AMD EPYC (family 26, model 2; `make bench`, commit ffad39a)."""

FIRST_STEPS = 3
"""What the first step and what is exported for it take, in steps: 2.2 to 5.2 with 4 layers of bert-large (AMD
EPYC, family 26, model 2)."""

WARMUP_BLOCKS = 5  # blocks of `measure.warmup_steps` until the warm-up has settled: 4 to 6 (the same CPU)

PROFILED_STEPS = 27
"""Steps of a profiled backend: 3 to warm up, 12 to 20 until there is room for events, 8 in four rounds (Intel
Xeon)."""


class ModelTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What a short run of eager PyTorch with few layers has shown."""

    layers: int | None  # of the deepest stack; None where the configuration does not say
    parameters: int  # of the model
    seconds: float  # of a step
    peak_bytes: float  # host memory of the rank that takes most
    runtime_bytes: float  # the part of it that interpreter and libraries take
    flops: float | None = None  # of a step, all ranks; None if they could not be counted
    layers_share: float | None = None  # of the FLOPs, in the layers; None if they could not be counted


class SizeChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured of a model."""

    size: str  # published, or layers:N; empty if nothing is measured
    resident: str = "all"  # all or one, as `measure.resident`
    expected_s: float = 0.0  # seconds that the comparison takes
    reason: str = ""  # why nothing is measured; else empty


class TrialFailed(UserError):
    """A model that this machine cannot even try."""


def train_shortly(config: Config, results_dir: Path) -> ModelTrial:
    """Train eager PyTorch with few layers for a few steps; what that has shown. Else TrialFailed.

    The trial's folder lies in `results_dir`.
    """
    size = f"model.size={trial_size(config.model)}"
    config = compose([*overrides_of(config), size, *SHORT, f"results_dir={results_dir / FOLDER}"])
    table = csv_files.read(measure_comparison(config, check_and_name(config)).csv)
    timed = table[table["round"].notna()]  # invalid blocks, too: others on the cores only make it longer
    if timed.empty:
        failed = table.iloc[-1]
        raise TrialFailed(f"the trial ended as {failed['status']}: {failed['message']}")
    row = timed.iloc[-1]
    return ModelTrial(
        layers=None if timed["layers"].isna().all() else int(row["layers"]),
        parameters=int(row["parameters"]),
        seconds=float((timed["seconds"] / timed["steps"]).median()),
        peak_bytes=float(timed[list(PEAKS)].max(axis=None)) * 2**20,
        runtime_bytes=float(row["host_runtime_mib"]) * 2**20,
        flops=None if timed["model_flops_per_step"].isna().all() else float(row["model_flops_per_step"]),
        layers_share=None if timed["layers_flops_share"].isna().all() else float(row["layers_flops_share"]),
    )


def comparison_seconds(config: Config, step_s: float) -> float:
    """How long a comparison takes on this machine whose steps take so long."""
    measure, backends = config.measure, len(config.backends)
    starts = measure.launches + 1 + measure.explain
    start = backends * (START_CPU_S * config.device.world_size / available_cores() + FIRST_STEPS * step_s)
    timed = measure.launches * (
        WARMUP_BLOCKS * measure.warmup_steps * step_s + measure.rounds * max(step_s, measure.block_seconds)
    )
    profiled = PROFILED_STEPS * step_s if measure.explain else 0.0
    parity = 2 * measure.parity_steps * step_s  # of each backend, and once more of what all are compared with
    return starts * start + parity + backends * (parity + timed + profiled)


def choose(trial: ModelTrial, config: Config, *, memory_bytes: float, seconds: float) -> SizeChoice:
    """Return the most layers that fit into this memory and time; the fewest, if even those take longer.

    All groups live side by side if memory allows that with the fewest layers, since a ratio of neighbouring
    blocks is the steadiest; else one after the other. `config` has the published model.
    """
    model, backends, ranks = config.model, len(config.backends), config.device.world_size
    room = MEMORY_SHARE * memory_bytes / (ranks * ENGINES_PEAK)  # of a backend's rank, were it alone
    depths = _depths(trial, model)
    least = peak_bytes(trial, model, depths[0])
    if least > room:
        needed = least * ranks * ENGINES_PEAK / MEMORY_SHARE
        few = "all layers" if depths[0] is None else f"{depths[0]} layers"
        gib = f"{needed / 2**30:.0f} GiB with {few}, and this machine has {memory_bytes / 2**30:.0f}"
        return SizeChoice(size="", reason=f"needs {gib}")
    side_by_side = least * backends <= room
    together = backends if side_by_side else 1
    fitting = [depth for depth in depths if peak_bytes(trial, model, depth) * together <= room]
    in_time = [
        depth for depth in fitting if comparison_seconds(config, step_seconds(trial, depth)) <= seconds
    ]
    depth = (in_time or fitting[:1])[-1]
    whole = depth is None or depth == layers.count(model.dimensions)
    return SizeChoice(
        size=PUBLISHED if whole else f"{layers.PREFIX}{depth}",
        resident="all" if side_by_side else "one",
        expected_s=comparison_seconds(config, step_seconds(trial, depth)),
    )


def trial_size(model: Model) -> str:
    """The size of a trial: the fewest layers, but two where there are as many; one alone is no stack."""
    published, fewest = layers.count(model.dimensions), layers.fewest(model.dimensions)
    if published is None or fewest is None or model.parameters is None:
        return PUBLISHED
    depth = max(2, fewest)
    return PUBLISHED if depth >= published else f"{layers.PREFIX}{depth}"


def peak_bytes(trial: ModelTrial, model: Model, depth: int | None) -> float:
    """Host memory of a rank of eager PyTorch with so many layers.

    Parameters are exact, since each layer has as many; what is neither them nor libraries grows with
    the FLOPs.
    """
    if depth is None or depth == trial.layers:
        return trial.peak_bytes
    parameters = _parameters(trial, model, depth)
    activations = max(0.0, trial.peak_bytes - trial.runtime_bytes - STATE_BYTES * trial.parameters)
    return trial.runtime_bytes + STATE_BYTES * parameters + activations * _work(trial, depth)


def step_seconds(trial: ModelTrial, depth: int | None) -> float:
    """Seconds of a step of eager PyTorch with so many layers: as many as its FLOPs are more."""
    return trial.seconds * _work(trial, depth)


def _work(trial: ModelTrial, depth: int | None) -> float:
    """FLOPs with so many layers over those of the trial; all are the layers' if that is unknown."""
    if depth is None or not trial.layers:
        return 1.0
    share = 1.0 if trial.layers_share is None else trial.layers_share
    return 1 + share * (depth / trial.layers - 1)


def _parameters(trial: ModelTrial, model: Model, depth: int) -> float:
    published = layers.count(model.dimensions)
    if not trial.layers or not published or published == trial.layers or model.parameters is None:
        return trial.parameters
    each = (model.parameters - trial.parameters) / (published - trial.layers)
    return trial.parameters + (depth - trial.layers) * each


def _depths(trial: ModelTrial, model: Model) -> list[int | None]:
    """Numbers of layers from the trial's on; a single None where they cannot be counted."""
    published = layers.count(model.dimensions)
    if published is None or trial.layers is None:
        return [None]
    return list(range(trial.layers, published + 1))
