"""What short trials of plain PyTorch show of its memory and time, however many parts a micro-batch has."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.advise.bounds import Bounds, exactly
from bench.sweeps.fit import ModelTrial

MOST_PARTS = 8
"""Of a trial: a step in more parts would take long, and one in so many needs little memory."""

TIME_TOLERANCE = 0.1
"""By what share a step may take more or less time than the line through two trials says."""


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
        """Throughput in so many parts over that in another number of them.

        Args:
            parts: of each micro-batch.
            times: so many times as fast as plain PyTorch is a configuration whose parts cost as much.
            before: the other number.
        """
        if parts == before:
            return exactly(1.0)

        def ratio(faster: float) -> float:
            work = self.work_seconds / faster
            return (work + self.part_seconds * before) / (work + self.part_seconds * parts)

        extremes = ratio(1.0), ratio(max(1.0, times.high)) if times.is_finite else before / parts
        return Bounds((1 - TIME_TOLERANCE) * min(extremes), (1 + TIME_TOLERANCE) * max(extremes))


def parts_of_trials(micro_batch: int) -> list[int]:
    """In how many parts the trials train a micro-batch: the two largest divisors up to eight."""
    return [one for one in divisors(micro_batch) if one <= MOST_PARTS][-2:][::-1]


def learn(trials: Mapping[int, ModelTrial], micro_batch: int, held_bytes: float) -> PlainTraining:
    """Draw a line through one or two trials.

    Args:
        trials: by the number of parts; one alone where a micro-batch is a single sample.
        micro_batch: of each.
        held_bytes: weights, gradients, states and buckets of a rank.
    """
    fewest, most = min(trials), max(trials)
    whole, divided = trials[fewest], trials[most]

    def more(trial: ModelTrial) -> float:
        return max(0.0, trial.peak_bytes - trial.runtime_bytes - held_bytes)

    held = whole.runtime_bytes + held_bytes
    if fewest == most:
        return PlainTraining(
            micro_batch=micro_batch,
            trial=whole,
            first_bytes=held,
            fixed_bytes=0.0,
            sample_bytes=more(whole) * fewest / micro_batch,
            work_seconds=whole.seconds,
            part_seconds=0.0,
        )
    samples = micro_batch / fewest - micro_batch / most
    sample_bytes = max(0.0, more(whole) - more(divided)) / samples
    part_seconds = max(0.0, divided.seconds - whole.seconds) / (most - fewest)
    fixed_bytes = max(0.0, more(whole) - sample_bytes * micro_batch / fewest)
    return PlainTraining(
        micro_batch=micro_batch,
        trial=whole,
        first_bytes=held + fixed_bytes,
        fixed_bytes=fixed_bytes,
        sample_bytes=sample_bytes,
        work_seconds=max(0.0, whole.seconds - part_seconds * fewest),
        part_seconds=part_seconds,
    )


def divisors(number: int) -> list[int]:
    """All of them, the smallest first."""
    return [one for one in range(1, number + 1) if number % one == 0]
