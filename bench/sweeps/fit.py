"""How much of a published model this machine can train in the time there is, from one short trial.

Layers are left out, never width: the layers are where a large model's time goes, and the width decides how
fast its matrix products are. What is predicted here is announced; the results say what came of it.
"""

import math
from dataclasses import dataclass

import msgspec

from bench.config.layers import PREFIX
from bench.config.sizes import PUBLISHED

STATE_BYTES = 16
"""Of a parameter in fp32: weight, gradient, and Adam's two moments (Rajbhandari et al. 2020, ZeRO,
arXiv:1910.02054, section 3.1, with 4 bytes in place of 2 for weight and gradient, and no copy)."""

MEMORY_SHARE = 0.8
"""Of this machine's memory that all ranks together may take; the rest is the system's and the files'."""

ENGINES_PEAK = 1.4
"""Peak of the backend that takes most, over that of eager PyTorch: `ortmodule_zero1` takes 3,354 MiB a rank
where `pytorch` takes 2,489, with 2 of 24 layers of bert-large at micro_batch=1 and seq_len=128; 1.13 with 4
layers at seq_len=256, and 1.23 on BERT-Mini (AMD EPYC, family 26, model 2)."""

START_CPU_S = 9.0
"""CPU seconds of a rank from its start until it is built, on the slowest CPU seen so far: 9 to 10 on an Intel
Xeon (family 6, model 167; `make reproduce MODEL=gpt2,mobilevit-small,roberta-large`, commit 0ead743), 6.5 on
an AMD EPYC (family 26, model 2; `make bench`, commit ffad39a)."""

FIRST_STEPS = 3
"""What the first step and what is exported for it take, in steps: 2.2 to 5.2 with 4 layers of bert-large, on
the AMD EPYC; likewise the next."""

WARMUP_BLOCKS = 5
"""Of `measure.warmup_steps` each, until the warm-up has settled: 4 to 6."""

PROFILED_STEPS = 27
"""Of a backend: 3 to warm up, 12 to 20 until there is room for events, 8 in four rounds (Intel Xeon)."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What a short run of eager PyTorch with few layers has shown."""

    layers: int | None  # of the deepest stack; None where the configuration does not say
    parameters: int  # of the model
    seconds: float  # of a step
    peak_bytes: float  # host memory of the rank that takes most
    runtime_bytes: float  # of it, interpreter and libraries
    # those of them that are trained; fewer with adapters, None in older files
    trainable: int | None = None
    flops: float | None = None  # of a step, all ranks; None if they could not be counted
    layers_share: float | None = None  # of them, in the layers; likewise


@dataclass(frozen=True, kw_only=True)
class Published:
    """The model as published: layers of its deepest stack, the fewest it can have, and its parameters."""

    layers: int | None
    fewest_layers: int | None
    parameters: int


@dataclass(frozen=True, kw_only=True)
class Effort:
    """What a comparison does."""

    backends: int  # how many are compared
    ranks: int  # of each
    cores: int  # of this machine
    launches: int  # that are timed
    rounds: int  # of a launch
    block_seconds: float  # a block lasts so long, and at least a step
    warmup_steps: int  # of a warm-up block
    parity_steps: int  # of the parity check
    explain: bool  # whether profiles follow

    def seconds(self, step: float) -> float:
        """How long a comparison takes whose steps take so long."""
        starts = self.launches + 1 + self.explain
        start = self.backends * (START_CPU_S * self.ranks / self.cores + FIRST_STEPS * step)
        timed = self.launches * (
            WARMUP_BLOCKS * self.warmup_steps * step + self.rounds * max(step, self.block_seconds)
        )
        profiled = PROFILED_STEPS * step if self.explain else 0.0
        parity = 2 * self.parity_steps * step  # of each backend, and once more of what all are compared with
        return starts * start + parity + self.backends * (parity + timed + profiled)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured of a model."""

    size: str  # published, or layers:N; empty if nothing is measured
    resident: str = "all"  # all or one, as `measure.resident`
    expected_s: float = 0.0  # seconds that the comparison takes
    reason: str = ""  # why nothing is measured; else empty


def choose(
    trial: Trial, published: Published, effort: Effort, *, memory_bytes: float, seconds: float
) -> Choice:
    """Return the most layers that fit into memory and time; the fewest, if even those take longer.

    All groups live side by side if memory allows that with the fewest layers, since a ratio of neighbouring
    blocks is the steadiest; else one after the other.
    """
    room = MEMORY_SHARE * memory_bytes / (effort.ranks * ENGINES_PEAK)  # of a backend's rank, were it alone
    depths = _depths(trial, published)
    least = peak_bytes(trial, published, depths[0])
    side_by_side = least * effort.backends <= room
    together = effort.backends if side_by_side else 1
    if least > room:
        needed = least * effort.ranks * ENGINES_PEAK / MEMORY_SHARE
        return Choice(
            size="",
            reason=f"needs {needed / 2**30:.0f} GiB with {_words(depths[0])}, and this machine has "
            f"{memory_bytes / 2**30:.0f}",
        )
    fitting = [depth for depth in depths if peak_bytes(trial, published, depth) * together <= room]
    in_time = [depth for depth in fitting if effort.seconds(step_seconds(trial, depth)) <= seconds]
    depth = (in_time or fitting[:1])[-1]
    whole = depth is None or depth == published.layers
    return Choice(
        size=PUBLISHED if whole else f"{PREFIX}{depth}",
        resident="all" if side_by_side else "one",
        expected_s=effort.seconds(step_seconds(trial, depth)),
    )


def trial_size(published: Published) -> str:
    """The size of a trial: the fewest layers, but two where there are as many; one alone is no stack."""
    if published.layers is None or published.fewest_layers is None:
        return PUBLISHED
    depth = max(2, published.fewest_layers)
    return PUBLISHED if depth >= published.layers else f"{PREFIX}{depth}"


def peak_bytes(trial: Trial, published: Published, layers: int | None) -> float:
    """Host memory of a rank of eager PyTorch with so many layers.

    Parameters are exact, since each layer has as many; what is neither them nor libraries grows with
    the FLOPs.
    """
    if layers is None or layers == trial.layers:
        return trial.peak_bytes
    parameters = _parameters(trial, published, layers)
    activations = max(0.0, trial.peak_bytes - trial.runtime_bytes - STATE_BYTES * trial.parameters)
    return trial.runtime_bytes + STATE_BYTES * parameters + activations * _work(trial, layers)


def step_seconds(trial: Trial, layers: int | None) -> float:
    """Seconds of a step of eager PyTorch with so many layers: as many as its FLOPs are more."""
    return trial.seconds * _work(trial, layers)


def _work(trial: Trial, layers: int | None) -> float:
    """FLOPs with so many layers over those of the trial; all are the layers' if that is unknown."""
    if layers is None or not trial.layers:
        return 1.0
    share = 1.0 if trial.layers_share is None else trial.layers_share
    return 1 + share * (layers / trial.layers - 1)


def _parameters(trial: Trial, published: Published, layers: int) -> float:
    if not trial.layers or not published.layers or published.layers == trial.layers:
        return trial.parameters
    each = (published.parameters - trial.parameters) / (published.layers - trial.layers)
    return math.fsum([trial.parameters, (layers - trial.layers) * each])


def _depths(trial: Trial, published: Published) -> list[int | None]:
    """Numbers of layers from the trial's on; a single None where they cannot be counted."""
    if published.layers is None or trial.layers is None:
        return [None]
    return list(range(trial.layers, published.layers + 1))


def _words(layers: int | None) -> str:
    return "all layers" if layers is None else f"{layers} layers"
