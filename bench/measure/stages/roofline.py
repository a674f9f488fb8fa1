"""The work of a step and the devices' limit, from groups that have come to the end of the parity launch."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.errors import LaunchFailed
from bench.launch.messages import CountFlops, ProductsTimed, TimeProducts
from bench.measure.groups.running import RunningGroups
from bench.results.records import Roofline, TimedLibrary


@dataclass
class RooflineFinder:
    """Asks the reference's group for the work of a step, and one group of each library for its products.

    What fails leaves blanks and no row: parity is known by then, and nothing that is timed needs it.

    Attributes:
        found: what is known so far.
    """

    reference: str  # the backend whose group counts; it is also the first to be asked for products
    stacks: Mapping[str, str]  # of each backend; libraries of the same name on two stacks are two

    def __post_init__(self) -> None:
        self.found = Roofline()
        self._libraries: dict[str, str] = {}  # of each backend
        self._asked: set[tuple[str, str]] = set()  # library and stack

    def note_library(self, name: str, library: str) -> None:
        """Keep in mind what multiplies matrices for a backend."""
        self._libraries[name] = library

    def find(self, groups: RunningGroups) -> None:
        """Ask those of these groups that are needed, one after the other, while the others sleep.

        Where not all groups live at a time, the reference's come first, since its answer says which
        shapes to multiply.
        """
        for name in groups:
            groups[name].pause()
        if self.reference in groups:
            self._count_flops(groups)
        for name in sorted(groups, key=lambda name: name != self.reference):
            library = self._libraries[name], self.stacks[name]
            if library not in self._asked:
                self._asked.add(library)
                self._time_products(groups, name)

    def _count_flops(self, groups: RunningGroups) -> None:
        try:
            counted, *_ = groups[self.reference].request(CountFlops())
        except LaunchFailed as failure:
            self._lose(groups, self.reference, failure)
            return
        finally:
            _pause(groups, self.reference)
        self.found = dataclasses.replace(
            self.found,
            counted=tuple(counted.counted),
            counted_on=counted.counted_on,
            layers_flops=counted.layers_flops,
            published_flops=counted.published_flops,
            products=tuple(counted.products),
        )
        self._add_absent(counted.absent)

    def _time_products(self, groups: RunningGroups, name: str) -> None:
        shapes = [product.shape for product in self.found.products]
        try:
            ranks: list[ProductsTimed] = groups[name].request(TimeProducts(shapes=shapes))
        except LaunchFailed as failure:
            self._lose(groups, name, failure)
            return
        finally:
            _pause(groups, name)
        timed = TimedLibrary(
            library=self._libraries[name],
            stack=self.stacks[name],
            backend=name,
            ranks=tuple(tuple(rank.products) for rank in ranks),
            build=ranks[0].build,
        )
        self.found = dataclasses.replace(self.found, libraries=(*self.found.libraries, timed))
        self._add_absent(f"{name}: {reason}" for rank in ranks for reason in rank.absent)

    def _lose(self, groups: RunningGroups, name: str, failure: LaunchFailed) -> None:
        groups.pop(name).close()
        self._add_absent([f"{name}: {failure.status}: {failure.message}"])

    def _add_absent(self, reasons: Iterable[str]) -> None:
        self.found = dataclasses.replace(
            self.found, absent=tuple(dict.fromkeys([*self.found.absent, *reasons]))
        )


def _pause(groups: RunningGroups, name: str) -> None:
    """Let a group sleep, if it is still there, while the next one is asked."""
    if name in groups:
        groups[name].pause()
