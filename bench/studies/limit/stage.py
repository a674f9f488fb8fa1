"""The work of a step and the devices' limit, from groups that have come to the end of the parity launch."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from bench.errors import LaunchFailed
from bench.launch.messages import Built
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.plans import Launch
from bench.measure.stages.stage import Run, Stage
from bench.studies.limit.found import NAME, Roofline, TimedLibrary
from bench.studies.limit.messages import CountFlops, ProductsTimed, TimeProducts


class RooflineFinder(Stage):
    """Asks the reference's group for a step's work, and one per library and precision for its products.

    A failure leaves blanks and no row: parity is known by then, and no timing depends on this.
    """

    def __init__(self, shared: Run) -> None:
        super().__init__(shared)
        self._known = Roofline()
        self._asked: set[tuple[str, ...]] = set()  # library, stack and precision: each has its own rates
        shared.when_trained.append(self.find)

    def find(self, groups: RunningGroups, built: Mapping[str, Sequence[Built]]) -> None:
        """Ask the needed groups one by one, the reference's first: its answer has the shapes to multiply."""
        reference = self.shared.plan.reference
        for name in groups:
            groups[name].pause()
        if reference in groups:
            self._count_flops(groups, reference)
        for name in sorted(groups, key=lambda name: name != reference):
            backend = self.shared.plan.backends[name]
            library = built[name][0].library, backend.stack, backend.spec.precision.name
            if library not in self._asked:
                self._asked.add(library)
                self._time_products(groups, name, *library)
        for name in self.shared.names:
            self.shared.ledger.set_for_later_records(name, found={NAME: self._known})

    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Do nothing: the parity launch has done this stage's work."""
        return names

    def _count_flops(self, groups: RunningGroups, name: str) -> None:
        with groups.closing_if_it_fails(name, self._lose):
            counted, *_ = groups[name].request(CountFlops())
            groups[name].pause()
            self._known = dataclasses.replace(counted.roofline, absent=())  # nothing else is known yet
            self._add_absent(counted.roofline.absent)

    def _time_products(
        self, groups: RunningGroups, name: str, library: str, stack: str, precision: str
    ) -> None:
        shapes = [product.shape for product in self._known.products]
        with groups.closing_if_it_fails(name, self._lose):
            ranks: list[ProductsTimed] = groups[name].request(TimeProducts(shapes=shapes))
            groups[name].pause()
            products = tuple(tuple(rank.products) for rank in ranks)
            timed = TimedLibrary(library=library, stack=stack, precision=precision, ranks=products)
            self._known = dataclasses.replace(self._known, libraries=(*self._known.libraries, timed))
            self._add_absent(f"{name}: {reason}" for rank in ranks for reason in rank.absent)

    def _lose(self, name: str, _: Launch, failure: LaunchFailed, __: str) -> None:
        self._add_absent([f"{name}: {failure.status}: {failure.message}"])

    def _add_absent(self, reasons: Iterable[str]) -> None:
        new = [reason for reason in dict.fromkeys(reasons) if reason not in self._known.absent]
        self._known = dataclasses.replace(self._known, absent=(*self._known.absent, *new))
        for reason in new:
            self.shared.bar.print_line(f"not all is known about this device's limit: {reason}")


STAGE = RooflineFinder
