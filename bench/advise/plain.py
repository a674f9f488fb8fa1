"""What short trials of plain PyTorch show of its memory and time, however many parts a micro-batch has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.advise.bounds import Bounds, exactly
from bench.config.compose import compose
from bench.config.schema import Config
from bench.report.content.collection import ReportedComparison, read_comparison
from bench.scale.memory import predict_memory
from bench.sweeps.fit import ModelTrial, train_shortly

PLAIN = "pytorch"  # the backend of the trials

MOST_PARTS = 8
"""The most parts of a trial's micro-batch: more would take long, and so many need little memory."""

TIME_TOLERANCE = 0.1  # by what share a step may take more or less time than the line through two trials says


@dataclass(frozen=True, kw_only=True)
class PlainTraining:
    """A step of plain PyTorch: what it needs on a rank, and how long it takes."""

    micro_batch: int  # samples of a rank that are trained in one or more parts
    trial: ModelTrial  # the one with the most samples at once
    first_bytes: float  # before the first sample, all together
    fixed_bytes: float  # of them, beside libraries, weights, gradients and states
    sample_bytes: float  # more, for each sample that is trained at once
    work_seconds: float  # of a step, whatever the number of parts
    part_seconds: float  # more, for each part

    def samples_at_once(self, parts: int) -> int:
        """How many samples of a rank are trained at once."""
        return self.micro_batch // parts

    def speed_in_parts(self, parts: int, times: Bounds, before: int = 1) -> Bounds:
        """Throughput with each micro-batch in so many parts, over that with as many as `before`.

        It is that of a configuration so many `times` as fast as plain PyTorch, whose parts cost as much.
        """
        if parts == before:
            return exactly(1.0)

        def ratio(faster: float) -> float:
            work = self.work_seconds / faster
            return (work + self.part_seconds * before) / (work + self.part_seconds * parts)

        extremes = ratio(1.0), ratio(max(1.0, times.high)) if times.is_finite else before / parts
        return Bounds((1 - TIME_TOLERANCE) * min(extremes), (1 + TIME_TOLERANCE) * max(extremes))


def try_plain(
    line: Sequence[str], results_dir: Path, say: Callable[[str], None]
) -> tuple[Config, PlainTraining, ReportedComparison]:
    """Train plain PyTorch for some steps without a limit, for the comparison of these overrides.

    Returns the configuration of the trials, the line through them, and the results of the last. TrialFailed
    if it did not train.
    """
    whole = [
        *(override for override in line if not override.startswith(("reference=", "backends."))),
        *(f"backend=[{PLAIN}]", "device.memory_limit_gib=null"),
    ]
    config = compose(whole)
    trials = {}
    for parts in parts_of_trials(config.micro_batch):
        say(f"a short trial of plain PyTorch, each micro-batch in {parts} parts")
        trials[parts], csv = train_shortly([*whole, f"backends.{PLAIN}.accumulate={parts}"], results_dir)
    held = held_bytes(config, PLAIN, next(iter(trials.values())))
    return config, learn(trials, config.micro_batch, held), read_comparison(csv)


def held_bytes(config: Config, name: str, trial: ModelTrial) -> float:
    """Weights, gradients, states and buckets of a rank."""
    backend, device = config.backends[name], config.device
    return predict_memory(
        backend.sharding,
        parameters=trial.parameters,
        trainable=trial.parameters if trial.trainable is None else trial.trainable,
        ranks=device.world_size,
        on_cuda=device.type == "cuda",
        optimizer=backend.optimizer_on(device.type),
    )


def parts_of_trials(micro_batch: int) -> list[int]:
    """In how many parts the trials train a micro-batch: the two largest divisors up to eight."""
    return [parts for parts in divisors(micro_batch) if parts <= MOST_PARTS][-2:][::-1]


def learn(trials: Mapping[int, ModelTrial], micro_batch: int, held_bytes: float) -> PlainTraining:
    """Draw a line through two trials, by their number of parts; one alone where there is a single sample."""
    fewest, most = min(trials), max(trials)
    whole, divided = trials[fewest], trials[most]
    more_whole, more_divided = (
        max(0.0, trial.peak_bytes - trial.runtime_bytes - held_bytes) for trial in (whole, divided)
    )
    if fewest == most:
        sample_bytes, part_seconds, fixed_bytes = more_whole * fewest / micro_batch, 0.0, 0.0
    else:
        samples = micro_batch / fewest - micro_batch / most
        sample_bytes = max(0.0, more_whole - more_divided) / samples
        part_seconds = max(0.0, divided.seconds - whole.seconds) / (most - fewest)
        fixed_bytes = max(0.0, more_whole - sample_bytes * micro_batch / fewest)
    return PlainTraining(
        micro_batch=micro_batch,
        trial=whole,
        first_bytes=whole.runtime_bytes + held_bytes + fixed_bytes,
        fixed_bytes=fixed_bytes,
        sample_bytes=sample_bytes,
        work_seconds=max(0.0, whole.seconds - part_seconds * fewest),
        part_seconds=part_seconds,
    )


def divisors(number: int) -> list[int]:
    """All divisors, the smallest first."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
