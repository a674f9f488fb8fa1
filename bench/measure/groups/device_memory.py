"""The GPUs' memory: what each group has of it, and whether all backends of a launch fit side by side."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from bench.launch.group import Group
from bench.machine.telemetry.gpu_sampler import GpuSampler

MARGIN = 1.5
"""A timed launch, which has dropout, may need this many times a backend's memory in the parity launch.

A layer of BERT-Large at 512 tokens keeps 74 bytes of each token and hidden unit in 16 bits, and 48 without
(Korthikanti et al. 2022, arXiv:2205.05198, section 4.1)."""

Bytes = list[int | None]  # on each device, in the order of the ranks; None if NVML does not say


class DeviceMemory:
    """Made before any group starts: memory in use then belongs to others. On a CPU nothing is ever short."""

    def __init__(self, sampler: GpuSampler, total_bytes: int, *, in_turns: bool) -> None:  # 0 if unknown
        self.in_turns = in_turns  # all groups of a launch live side by side, if they fit; else one at a time
        self.of_others: dict[str, Any] = {}  # fields of a `Phase`, of the group that works
        self._sampler = sampler
        self._before = self._used()
        self._free = _subtract([total_bytes or None] * len(self._before), self._before)
        self._held: WeakKeyDictionary[Group, Bytes] = WeakKeyDictionary()
        self._of_parity: dict[str, Bytes] = {}  # of each backend

    @contextmanager
    def turn_of(self, group: Group, living: Iterable[Group]) -> Iterator[None]:
        """Only this group works meanwhile: all changes of the devices' memory are its own."""
        others = foreign = _subtract(self._used(), self._held.get(group))
        for other in living:
            if other is not group:
                foreign = _subtract(foreign, self._held.get(other))
        self.of_others = {"device_others_bytes": tuple(others), "device_foreign_bytes": tuple(foreign)}
        try:
            yield
        finally:
            self._held[group] = _subtract(self._used(), others)

    def note_parity(self, name: str) -> None:
        """Note what a backend has after its steps in the parity launch, alone on the devices."""
        self._of_parity[name] = _subtract(self._used(), self._before)

    def find_shortage(self, names: Iterable[str], times: float = 1) -> str:
        """Why these backends do not fit together at `times` the micro-batch; empty if they do."""
        for free, *held in zip(self._free, *(self._of_parity[name] for name in names), strict=True):
            known = [size for size in held if size is not None]
            if free is None or len(known) < len(held):
                return "NVML does not say how much memory they take"
            if (needed := MARGIN * times * sum(known)) > free:
                return f"they may take {needed / 2**30:.1f} GiB of a GPU, and {free / 2**30:.1f} are free"
        return ""

    def _used(self) -> Bytes:
        return [sample.used_bytes for sample in self._sampler.look()]


def _subtract(whole: Sequence[int | None], part: Sequence[int | None] | None) -> Bytes:
    """The difference on each device; the whole where there is nothing to subtract."""
    pairs = zip(whole, part or [0] * len(whole), strict=True)
    return [None if total is None or own is None else total - own for total, own in pairs]
