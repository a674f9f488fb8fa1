"""What a rank computes and sends on this machine, from `*.parts.csv` and the timed rows beside them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.scale.estimates import Dice, Estimate
from bench.analysis.scale.network import TimedSize
from bench.analysis.scale.steps import Parts
from bench.config.overrides import last_values
from bench.results import csv_files
from bench.results.collectives import SENT, Collective
from bench.results.side_files import STEP_PARTS
from bench.results.step_parts import BACKWARD, COPIES, FORWARD, TOGETHER, UPDATE, WHOLE
from bench.scale.links import PAYLOAD_SHARE
from bench.statistics.intervals import Floats, mean_with_interval
from bench.statistics.table_values import distinct_text

CONTROL_BYTES = 64
"""Collectives of up to so many bytes carry flags and norms, which are no part of a sharding's volume."""

MOST_SPREAD = 4.0
"""By what factor a figure may at most differ from its bounds: of two launches an interval says nothing."""


@dataclass(frozen=True, kw_only=True)
class Measured(ComparisonResults):
    """A comparison that predictions are made of, or checked with."""

    path: Path  # of its results file
    parts: pd.DataFrame  # of the file beside it, if its steps were taken apart; else without rows

    @property
    def backends(self) -> list[str]:
        """The names of all backends."""
        return list(dict.fromkeys(self.rows["backend"]))

    @cached_property
    def bytes_per_s(self) -> float | None:
        """What the slow link between its two nodes carries, without headers; None where there is none."""
        gbit_per_s = self.rows["link_gbit_per_s"].iloc[0]
        return None if np.isnan(gbit_per_s) else float(gbit_per_s) * 1e9 / 8 * PAYLOAD_SHARE

    @cached_property
    def link(self) -> str:
        """What its ranks send over: `loopback`, or a rate such as `1 Gbit/s`."""
        gbit_per_s = self.rows["link_gbit_per_s"].iloc[0]
        return "loopback" if np.isnan(gbit_per_s) else f"{gbit_per_s:g} Gbit/s"

    @cached_property
    def workload(self) -> tuple[str, ...]:
        """The overrides that decide the model's shapes."""
        chosen = ("model", "micro_batch", "seq_len", "data.lengths", "attention", "precision")
        last = sorted(last_values(self.overrides).items())
        return tuple(f"{key}={value}" for key, value in last if key in chosen or key.startswith("model."))

    def has_parts(self, backend: str) -> bool:
        """Whether the parts of this backend's steps are known."""
        return {WHOLE, TOGETHER} <= set(self._of(backend, "part")["name"])

    def has_same(self, backend: str, other: "Measured") -> bool:
        """Whether this backend of another comparison is in this one, on the same stack."""
        return backend in self.backends and self.text(backend, "stack") == other.text(backend, "stack")

    @cached_property
    def ranks(self) -> int:
        """The world size."""
        return int(self.rows["world_size"].iloc[0])

    def text(self, backend: str, column: str) -> str:
        """A cell that is the same in all rows of a backend."""
        return distinct_text(self.rows[self.rows["backend"] == backend], column)

    def number(self, backend: str, column: str) -> int:
        """A whole number that is the same in all rows of a backend."""
        return int(self.rows.loc[self.rows["backend"] == backend, column].iloc[0])

    def step_seconds(self, backend: str) -> Estimate | None:
        """Seconds in valid timed blocks: mean over launches with its interval; None where there are none."""
        launches = self._steps_of_launches(backend)
        return None if launches.empty else spread_of(launches)

    def step_ratio(self, backend: str, base: str) -> Estimate | None:
        """How many times as long a backend's step takes as another's, over launches that have both."""
        ours, theirs = self._steps_of_launches(backend), self._steps_of_launches(base)
        both = (ours / theirs).dropna()
        return None if both.empty else spread_of(both)

    def counted(self, backend: str) -> dict[Collective, int]:
        """The collectives of a step, flags and norms left out, with their calls."""
        counted = self._of(backend, "collective")
        counted = counted[(counted["calls"] > 0) & (counted["whole_bytes"] > CONTROL_BYTES)]
        columns = (counted[name] for name in ("name", "whole_bytes", "element_bytes", "calls"))
        return {
            Collective(kind=kind, bytes=int(size), element_bytes=int(element)): int(calls)
            for kind, size, element, calls in zip(*columns, strict=True)
        }

    def trained_bytes(self, backend: str) -> float | None:
        """Bytes of a rank at its peak, median over launches; on a host without what lay there before."""
        sizes = self._of(backend, "memory").groupby("name")["whole_bytes"].median()
        if "peak" not in sizes or (self.on_cpu and "runtime" not in sizes):
            return None
        return float(sizes["peak"] - (sizes["runtime"] if self.on_cpu else 0.0))

    def part(self, backend: str, name: str) -> Estimate:
        """Seconds of a part of a step, over launches, of a backend that `has_parts`."""
        parts = self._of(backend, "part")
        return spread_of(parts.loc[parts["name"] == name, "seconds"])

    def timed_sizes(self, backends: Iterable[str]) -> dict[str, list[TimedSize]]:
        """Collectives that were timed alone, by kind and in order of size."""
        timed = self.parts[
            (self.parts["item"] == "collective")
            & self.parts["backend"].isin(list(backends))
            & self.parts["seconds"].notna()
            & self.parts["name"].isin(list(SENT))
        ]
        sizes: dict[str, list[TimedSize]] = {}
        for (kind, size), group in timed.groupby(["name", "whole_bytes"], sort=True):
            # On a GPU the host only waits for it.
            busy = 0.0 if not self.on_cpu else float((group["cpu_s"] / group["seconds"]).median())
            sizes.setdefault(str(kind), []).append(
                TimedSize(size=float(size), seconds=spread_of(group["seconds"]), busy_share=min(1.0, busy))
            )
        return sizes

    def parts_of(self, backend: str, dice: Dice, *, host: float) -> Parts:
        """The parts of a step of a backend under DDP, which `has_parts`.

        `dice` draws the seconds. `host` are those that a step takes beside what DDP's takes longer than its
        parts.
        """
        grad_accum = self.number(backend, "grad_accum")
        figures = {name: self.part(backend, name) for name in (FORWARD, BACKWARD, UPDATE, COPIES, WHOLE)}
        drawn = {name: dice.draw(figure) for name, figure in figures.items()}
        passes = grad_accum * (figures[FORWARD].value + figures[BACKWARD].value)
        beside = figures[WHOLE].value - passes - figures[UPDATE].value
        elements, shares = self._ready(backend)
        return Parts(
            forward=drawn[FORWARD],
            backward=drawn[BACKWARD],
            update=drawn[UPDATE],
            copies=drawn[COPIES],
            host=np.full_like(drawn[FORWARD], beside + host),
            grad_accum=grad_accum,
            elements_ready=elements,
            share_ready=shares,
        )

    def _steps_of_launches(self, backend: str) -> pd.Series:
        """Seconds of a step in valid timed blocks, by launch."""
        valid = (self.rows["status"] == "ok") & self.rows["seconds"].notna()
        sums = (
            self.rows[(self.rows["backend"] == backend) & valid].groupby("launch")[["seconds", "steps"]].sum()
        )
        return sums["seconds"] / sums["steps"].astype(float)

    def _ready(self, backend: str) -> tuple[Floats, Floats]:
        ready = self._of(backend, "gradients")
        ready = ready[ready["launch"] == ready["launch"].min()]
        elements, shares = (ready[name].to_numpy(dtype=float) for name in ("elements", "share"))
        shares = np.maximum.accumulate(shares)
        return np.concatenate([[0.0], elements / elements[-1]]), np.concatenate([[0.0], shares])

    def _of(self, backend: str, item: str) -> pd.DataFrame:
        return self.parts[(self.parts["backend"] == backend) & (self.parts["item"] == item)]


def read_measured(folder: Path) -> list[Measured]:
    """All comparisons right inside a folder.

    Raises:
        UserError: a file is damaged.
    """
    comparisons = []
    for path in csv_files.list_files(folder):
        beside = STEP_PARTS.path_of(path)
        parts = STEP_PARTS.read(beside) if beside.exists() else pd.DataFrame(columns=list(STEP_PARTS.columns))
        comparisons.append(Measured(stem=path.stem, path=path, rows=csv_files.read(path), parts=parts))
    return comparisons


def merge_sizes(*known: dict[str, list[TimedSize]]) -> dict[str, list[TimedSize]]:
    """Timed collectives of several files; of a size that is in several, the first file's."""
    merged: dict[str, dict[float, TimedSize]] = {}
    for sizes in known:
        for kind, timed in sizes.items():
            for call in timed:
                merged.setdefault(kind, {}).setdefault(call.size, call)
    return {kind: [by_size[size] for size in sorted(by_size)] for kind, by_size in merged.items()}


def spread_of(seconds: "Sequence[float] | pd.Series") -> Estimate:
    """Mean of logarithms over launches with its 95 % interval; of one launch the number alone."""
    logs = np.log(np.asarray(seconds, dtype=float))
    value = float(np.exp(logs.mean()))
    if len(logs) < 2:
        return Estimate.exactly(value)
    amount = mean_with_interval(logs)
    assert amount.half is not None, "of two and more there is an interval"
    half = min(float(np.log(MOST_SPREAD)), amount.half)
    return Estimate(value=value, low=value * float(np.exp(-half)), high=value * float(np.exp(half)))
