"""Decides whether a block may count: pure functions of raw figures, called in measuring and for the rows.

A verdict never depends on a block's speed, so that leaving a block out cannot favour a backend.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.results.records import Block, WarmUp

CPU_ALLOWANCE = 1.1
"""CPU seconds over seconds x ranks x cores above which a backend had more than its share of the machine."""

FOREIGN_SHARE = 0.05
"""Share of the ranks' core time above which other processes, or the hypervisor, spoil a block."""

UNCERTAIN_SECONDS = 0.02
"""For each core: the kernel counts in ticks of 0.01 s, and a tick may be cut at either end of a block."""

WAITING_GPU_PERCENT = 90.0
"""Share of the time that NVML calls busy, below which the GPU waits, mostly for the CPU to start kernels."""

OTHER_PROCESSES = "other processes"
HYPERVISOR = "hypervisor"
OWN_THREADS = "own threads"
SKIPPED_STEPS = "skipped steps"

REMEDIES = {
    OTHER_PROCESSES: "end them",
    HYPERVISOR: "use a machine whose cores are not shared",
    OWN_THREADS: "set device.threads to what the backend really uses",
    SKIPPED_STEPS: "a longer measure.warmup_steps lets the loss scale settle before",
}
"""What to do where a block does not count, by cause."""

STEADY_BYTES = 8 << 20  # new memory per step below which a process' memory counts as settled

PAGE_BYTES = 4 << 10
"""Bytes of a small page, one fault each. Huge pages escape that count, so the peak counts, too."""

STEADY_SPEED = 0.05
"""Share by which a warm-up block may be faster than the one before if warming up is to have ended."""


@dataclass(frozen=True, kw_only=True)
class Contamination:
    """Why a block does not count: one of the causes of `REMEDIES`, and the same in numbers."""

    cause: str
    reason: str

    def __str__(self) -> str:
        return f"{self.reason}; {REMEDIES[self.cause]}"


def allowed_seconds(core_seconds: float, cores: int) -> float:
    """CPU seconds that others may take of `cores` cores, which are watched for `core_seconds` in all."""
    return max(FOREIGN_SHARE * core_seconds, UNCERTAIN_SECONDS * cores)


def find_contamination(block: Block, cores_per_rank: int) -> Contamination | None:
    """Why the block does not count; None if it does."""
    if block.skipped_steps:
        # It did less work than the others'. The scale is half of what it was, and the block measured again.
        return Contamination(
            cause=SKIPPED_STEPS,
            reason=f"skipped {block.skipped_steps} of {block.steps} optimizer steps since gradients "
            "overflowed in fp16",
        )
    core_seconds, share = _core_time(block.seconds, cores_per_rank)
    used = sum(block.cpu_seconds)
    if used > CPU_ALLOWANCE * core_seconds:
        return Contamination(
            cause=OWN_THREADS,
            reason=f"used {used:.3f} CPU seconds, more than {CPU_ALLOWANCE * core_seconds:.3f} = "
            f"{CPU_ALLOWANCE} x {share}",
        )
    return find_competition(block.seconds, block.other_cpu_seconds, block.stolen_seconds, cores_per_rank)


def find_competition(
    seconds: Sequence[float],
    others: Sequence[float | None],
    stolen: Sequence[float | None],
    cores_per_rank: int,
) -> Contamination | None:
    """Who took too much of the ranks' cores while they worked for `seconds`, all in seconds of each rank."""
    core_seconds, share = _core_time(seconds, cores_per_rank)
    competitors = (
        (others, OTHER_PROCESSES, "other processes had"),
        (stolen, HYPERVISOR, "the hypervisor took"),
    )
    allowed = allowed_seconds(core_seconds, len(seconds) * cores_per_rank)
    for taken, cause, who in competitors:
        known = [value for value in taken if value is not None]
        if sum(known) > allowed:
            return Contamination(
                cause=cause,
                reason=f"{who} {sum(known):.3f} CPU seconds of the ranks' cores, more than the "
                f"{allowed:.3f} allowed in {share}",
            )
    return None


def _core_time(seconds: Sequence[float], cores_per_rank: int) -> tuple[float, str]:
    """The seconds of all the ranks' cores, and the same in words."""
    longest, ranks = max(seconds), len(seconds)
    return longest * ranks * cores_per_rank, f"{longest:.3f} s x {ranks} ranks x {cores_per_rank} cores"


def has_settled(warm_up: Sequence[WarmUp]) -> bool:
    """Whether the last warm-up block touched little new memory and was no faster than the one before."""
    if len(warm_up) < 2:
        return False
    before, last = warm_up[-2:]
    new = max(last.page_faults) * PAGE_BYTES
    for now, then in zip(last.host_peak_bytes, before.host_peak_bytes, strict=True):
        if now is not None and then is not None:
            new = max(new, now - then)
    if new > STEADY_BYTES * last.steps:
        return False
    return max(last.seconds) * before.steps >= (1 - STEADY_SPEED) * max(before.seconds) * last.steps
