"""What profiled steps were spent on: time and calls by operator."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from bench.results.operator_kinds import HOST, Operator
from bench.worker.observe.device_profile import ENGINE_CALLS, Work
from bench.worker.observe.engine_profile import EngineKernel, kernel_at

Key = tuple[str, str, str]
"""Library, part of the step, operator."""


class Spent:
    """Nanoseconds and calls by library, part of the step and operator."""

    def __init__(self) -> None:
        self._nanoseconds: dict[Key, int] = defaultdict(int)
        self._calls: dict[Key, int] = defaultdict(int)

    def add(
        self, name: str, nanoseconds: int, *, library: str = "torch", part: str = "", calls: int = 1
    ) -> None:
        """Add what an operator had to itself."""
        self._nanoseconds[library, part, name] += nanoseconds
        self._calls[library, part, name] += calls

    def add_work(self, works: Iterable[Work], kernels: Sequence[EngineKernel] = ()) -> None:
        """Add what a device did; an operator that did several things in one call was called once.

        Args:
            works: of one step, or all that an engine started.
            kernels: of the engine, in order: of two clocks, what was started during one is that one's.
        """
        seen: set[tuple[Key, int]] = set()
        for work in works:
            kernel = None if work.engine_launch is None else kernel_at(kernels, work.engine_launch)
            library = "torch" if work.engine_launch is None else "onnxruntime"
            key = (library, work.part, kernel.name if kernel else work.name)
            call = (key, kernel.start if kernel else work.call)
            self.add(key[2], work.nanoseconds, library=library, part=work.part, calls=call not in seen)
            seen.add(call)

    def divide_engine_calls(self, kernels: Iterable[EngineKernel]) -> None:
        """Replace the time of the calls into an engine by that of its kernels; the rest is its host's."""
        left = sum(self._nanoseconds.pop(("torch", "", name), 0) for name in ENGINE_CALLS)
        for kernel in kernels:
            self.add(kernel.name, kernel.end - kernel.start, library="onnxruntime")
            left -= kernel.end - kernel.start
        self.add(HOST, left, library="onnxruntime", calls=0)

    def operators(self, nanoseconds: int) -> tuple[Operator, ...]:
        """All of them, the longest first; what is missing up to `nanoseconds` is the host's."""
        self.add(HOST, nanoseconds - sum(self._nanoseconds.values()), calls=0)
        return tuple(
            Operator(
                library=library,
                part=part,
                name=name,
                calls=self._calls[library, part, name],
                seconds=spent / 1e9,
            )
            for (library, part, name), spent in sorted(self._nanoseconds.items(), key=lambda item: -item[1])
            if spent
        )
