"""Rows of results/predicted/checks.csv: what was predicted beside what was measured on this machine.

Bytes that a rank sends in a step: from the sharding's rules and the model's shapes, against what was counted
at the collectives. Memory of a rank: what was measured on one rank under DDP, and for more ranks and other
shardings what is counted, against what was measured there. Seconds of a step on two ranks: the parts of a
step of ranks that train apart, and the seconds of collectives that were done alone, against timed blocks;
against steps of ranks that train together, taken in turn with those parts, right after the collectives; and
as a ratio to DDP's, in which a machine's faster and slower minutes cancel out. Seconds of one collective
over a slow link: what it took without one, and the link's rate, against what it took there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bench.analysis.scale.estimates import Dice, Draws, Estimate, estimates_of
from bench.analysis.scale.memory import predict_memory
from bench.analysis.scale.network import MeasuredRanks, TimedSize
from bench.analysis.scale.sendings import TEXTBOOK, Sending, sendings, sent_in_a_step
from bench.analysis.scale.steps import predict_step
from bench.analysis.scale.tables import BYTES, IN_TURN, MEMORY, QUANTITIES, RATIO, SECONDS, seconds_of_one
from bench.config.choices import DIVIDED
from bench.errors import UserError
from bench.machine.identity import processor_key
from bench.results.collectives import sent_bytes
from bench.results.environment_cell import latest_environment
from bench.results.step_parts import TOGETHER, ModelFacts
from bench.scale.facts import facts_of
from bench.scale.measured import CONTROL_BYTES, Measured, merge_sizes, read_measured
from bench.statistics.table_values import distinct_text

DDP = "ddp"
"""The sharding whose ranks' parts are timed, and whose memory on one rank is where others start from."""

DRAWS, SEED = 256, 1


def check_rows(folder: Path, results: Path) -> Iterator[dict[str, Any]]:
    """A row for each point that was measured in a machine's folder and can be predicted from the others.

    Raises:
        UserError: a file is damaged, or a model's shapes cannot be had.
    """
    known = read_measured(folder)
    if len({processor_key(latest_environment(each.rows)) for each in known}) > 1:
        raise UserError(
            f"the files in {folder} are of several kinds of CPU", "keep those of each in a folder of its own"
        )
    facts: dict[tuple[str, ...], ModelFacts] = {}
    seen: set[tuple[object, ...]] = set()
    for measured in known:
        workload = measured.workload
        if workload not in facts:
            _, facts[workload] = facts_of([setting for setting in workload if setting])
        for backend in measured.backends:
            sharding, stack = measured.text(backend, "sharding"), measured.text(backend, "stack")
            if sharding not in TEXTBOOK:
                continue  # no rule says what it sends
            described = {
                "machine": folder.parent.name,
                "model": distinct_text(measured.rows, "model"),
                "backend": backend,
                "sharding": sharding,
                "link": measured.link,
                "measured_in": str(measured.path.relative_to(results)),
                "git_commit": measured.text(backend, "git_commit"),
                "ranks": measured.ranks,
            }
            checked = _CheckedBackend(measured=measured, backend=backend, facts=facts[workload], known=known)
            for row in (*checked.bytes(), *checked.memory(), *checked.seconds(), *checked.collectives()):
                point = (workload, backend, stack, measured.ranks, described["link"], row["quantity"])
                if point not in seen:  # what two comparisons counted is one point
                    seen.add(point)
                    yield described | row


@dataclass(frozen=True, kw_only=True)
class _CheckedBackend:
    """A backend of one comparison, and what predictions of it start from."""

    measured: Measured
    backend: str
    facts: ModelFacts
    known: Sequence[Measured]  # all comparisons of the machine

    @cached_property
    def alone(self) -> list[Measured]:
        """The comparisons of this workload on one rank."""
        workload = self.measured.workload
        return [each for each in self.known if each.ranks == 1 and each.workload == workload]

    @cached_property
    def base(self) -> str | None:
        """The backend with the same engine, optimizer and stack under DDP; None if there is none."""

        def kind(name: str) -> tuple[str, ...]:
            return tuple(self.measured.text(name, column) for column in ("engine", "optimizer", "stack"))

        alike = (name for name in self.measured.backends if kind(name) == kind(self.backend))
        return next((name for name in alike if self.measured.text(name, "sharding") == DDP), None)

    def bytes(self) -> Iterator[dict[str, Any]]:
        """Bytes that a rank sends in a step."""
        measured, ranks = self.measured, self.measured.ranks
        calls = measured.counted(self.backend)
        counted = sum(sent_bytes(collective, ranks) * number for collective, number in calls.items())
        accum = measured.number(self.backend, "grad_accum")
        predicted = sent_in_a_step(self._sendings(self.backend), ranks, accum, least_bytes=CONTROL_BYTES)
        if ranks > 1 and counted and measured.bytes_per_s is None:  # a link changes nothing of it
            yield _row(BYTES, Estimate.exactly(counted), Estimate.exactly(predicted))

    def memory(self) -> Iterator[dict[str, Any]]:
        """Without what a rank had before there was a model: libraries are no matter of the world size."""
        measured, base = self.measured, self.base
        if base is None or (measured.ranks == 1 and self.backend == base):
            return
        allocator, peak = measured.text(self.backend, "allocator"), measured.trained_bytes(self.backend)
        for source in self.alone:
            start = source.trained_bytes(base) if source.has_same(base, measured) else None
            if peak is None or start is None or source.text(base, "allocator") != allocator:
                continue
            activations = start - self._held_bytes(DDP, source, base)
            sharding = measured.text(self.backend, "sharding")
            predicted = activations + self._held_bytes(sharding, measured, self.backend)
            yield _row(MEMORY, Estimate.exactly(peak), Estimate.exactly(predicted))
            return

    def seconds(self) -> Iterator[dict[str, Any]]:
        """Seconds of a step: of timed blocks, in turn with its parts, and as a ratio to DDP's."""
        measured, base = self.measured, self.base
        if base is None or measured.ranks == 1:
            return
        predicted = self._predicted_seconds(self.backend, base)
        if predicted is None:
            return
        timed = measured.step_seconds(self.backend)
        if timed is not None:
            yield _row(SECONDS, timed, estimates_of(predicted)[0])
        if measured.has_parts(self.backend):
            yield _row(IN_TURN, measured.part(self.backend, TOGETHER), estimates_of(predicted)[0])
        ratio = measured.step_ratio(self.backend, base)
        if self.backend == base or ratio is None:
            return
        of_base = self._predicted_seconds(base, base)
        if of_base is not None:
            yield _row(RATIO, ratio, estimates_of(predicted / of_base)[0])

    def collectives(self) -> Iterator[dict[str, Any]]:
        """The largest collective of each kind that a step has, over a slow link."""
        measured = self.measured
        if measured.bytes_per_s is None:
            return
        dice, timed = Dice(DRAWS, SEED), self._timed(self.backend)
        network = MeasuredRanks(measured.ranks, timed, dice, bytes_per_s=measured.bytes_per_s)
        for kind, sizes in measured.timed_sizes([self.backend]).items():
            if kind in timed:
                predicted = network.seconds(kind, sizes[-1].size, np.array([float(measured.ranks)])).total
                yield _row(seconds_of_one(kind), sizes[-1].seconds, estimates_of(predicted)[0])

    def _predicted_seconds(self, backend: str, base: str) -> Draws | None:
        """An array of shape (draws, 1); None where something that it is made of was not measured.

        Every call draws alike, so that a ratio of two has the spread of what they do not share.
        """
        measured = self.measured
        same = [
            each
            for each in sorted(self.known, key=lambda each: each is not measured)
            if (each is measured or each.bytes_per_s is None)
            and (each.ranks, each.workload) == (measured.ranks, measured.workload)
            and each.has_same(base, measured)
            and each.has_parts(base)
        ]
        own_host = self._own_host_seconds(backend, base)
        if not same or own_host is None:
            return None
        timed, sent = self._timed(backend), self._sendings(backend)
        if not {sending.kind for sending in sent} <= set(timed):
            return None
        dice = Dice(DRAWS, SEED)
        parts = same[0].parts_of(base, dice, host=own_host)
        network = MeasuredRanks(measured.ranks, timed, dice, bytes_per_s=measured.bytes_per_s)
        ranks = np.array([float(measured.ranks)])
        divides_update = "optimizer" in DIVIDED[measured.text(backend, "sharding")]
        return predict_step(parts, sent, network, ranks, divides_update=divides_update).total

    def _own_host_seconds(self, backend: str, base: str) -> float | None:
        """What a step of a sharding takes longer than DDP's on one rank, where neither sends anything.

        0 for DDP itself; None where that was not measured.
        """
        if backend == base:
            return 0.0
        for each in self.alone:
            if each.has_same(backend, self.measured) and each.has_same(base, self.measured):
                seconds, of_base = each.step_seconds(backend), each.step_seconds(base)
                if seconds is not None and of_base is not None:
                    return seconds.value - of_base.value
        return None

    def _sendings(self, backend: str) -> list[Sending]:
        measured = self.measured
        sharding = measured.text(backend, "sharding")
        return sendings(sharding, self.facts, ranks=measured.ranks, on_cuda=not measured.on_cpu)

    def _timed(self, backend: str) -> Mapping[str, list[TimedSize]]:
        """The step's own collectives as they were timed alone on this machine, then others of as many ranks.

        Never over a slow link: what that does is predicted.
        """
        measured = self.measured
        near = [each for each in self.known if each.ranks == measured.ranks and each.bytes_per_s is None]
        near.sort(key=lambda each: (each is not measured, each.workload != measured.workload))
        return merge_sizes(
            *(each.timed_sizes([backend]) for each in near[:1]),
            *(each.timed_sizes(each.backends) for each in near),
        )

    def _held_bytes(self, sharding: str, comparison: Measured, backend: str) -> float:
        optimizer, on_cuda = comparison.text(backend, "optimizer"), not comparison.on_cpu
        return predict_memory(
            sharding,
            parameters=self.facts.parameters,
            trainable=self.facts.trainable,
            ranks=comparison.ranks,
            on_cuda=on_cuda,
            optimizer=optimizer,
        )


def _row(quantity: str, measured: Estimate, predicted: Estimate) -> dict[str, Any]:
    return {
        "quantity": quantity,
        "unit": QUANTITIES[quantity].unit,
        **measured.cells("measured"),
        **predicted.cells("predicted"),
        "error": predicted.value / measured.value - 1,
    }
