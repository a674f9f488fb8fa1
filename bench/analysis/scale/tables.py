"""Predicted figures: results/predicted/, in files and columns of their own, apart from everything measured.

Columns of predicted figures begin with `predicted_`; a bound of 95 % ends in `_low` or `_high`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.results.collectives import SENT
from bench.results.columns import REAL, TEXT
from bench.results.side_files import TableFile

FOLDER = "predicted"  # within the results


COUNTED, TEXTBOOK = "counted", "textbook"
"""What is sent: as libraries were counted to do it, or as a sharding's authors say."""

WEAK, STRONG = "weak", "strong"
"""Whether every rank has as many samples on more ranks, or all of them together."""

LEAST_GAIN = 1.0005  # the smallest ratio of samples/s that counts as faster: what rounds to 1.000 does not


def faster_world_sizes(ratios: Mapping[int, float]) -> list[int]:
    """The world sizes at which a ratio of samples/s says that the first of two is faster."""
    return [ranks for ranks, ratio in ratios.items() if ratio > LEAST_GAIN]


BYTES, MEMORY, SECONDS = "bytes sent", "memory of a rank", "seconds of a step"
"""Quantities that are both predicted and measured; the seconds are those of timed blocks."""

IN_TURN, RATIO = "step timed among its parts", "step relative to DDP's"
"""A step timed in turn with the parts that it is predicted from; and timed blocks as a ratio."""


def seconds_of_one(kind: str) -> str:
    """The name of a quantity: what one collective takes over a slow link."""
    return f"seconds of one {kind}"


@dataclass(frozen=True, kw_only=True)
class CheckedQuantity:
    """A quantity that is both predicted and measured."""

    unit: str  # in `checks.csv`; empty for a ratio
    allowed: float  # how far a prediction may be off, as a share; 0: it must be equal


QUANTITIES = {
    BYTES: CheckedQuantity(unit="B", allowed=0.0),
    MEMORY: CheckedQuantity(unit="B", allowed=0.10),
    SECONDS: CheckedQuantity(unit="s", allowed=0.08),
    IN_TURN: CheckedQuantity(unit="s", allowed=0.08),
    RATIO: CheckedQuantity(unit="", allowed=0.08),
    **{seconds_of_one(kind): CheckedQuantity(unit="s", allowed=0.08) for kind in SENT},
}
"""All of them by name, in the order of tables."""


def bounded(name: str) -> dict[str, str]:
    """A column of numbers and those of its bounds."""
    return {name: REAL, f"{name}_low": REAL, f"{name}_high": REAL}


SCALING = TableFile(
    what="predictions for many ranks",
    blanks=True,
    columns={
        "model": TEXT,
        "topology": TEXT,  # of conf/topology/
        "sharding": TEXT,
        "precision": TEXT,
        "volume": TEXT,  # COUNTED or TEXTBOOK
        "scaling": TEXT,  # WEAK or STRONG
        "basis": TEXT,  # of the seconds of computing: measured in which file, or assumed
        "command": TEXT,  # that predicts it again
        "git_commit": TEXT,
        "ranks": REAL,
        "micro_batch": REAL,
        "seq_len": REAL,
        **bounded("predicted_step_s"),
        "predicted_computed_s": REAL,
        "predicted_exposed_s": REAL,  # that sending makes the step longer
        **bounded("predicted_samples_per_s"),
        **bounded("predicted_efficiency"),  # samples/s of a rank, as a share of those of a rank alone
        "predicted_memory_gib": REAL,  # of a rank
        "memory_gib": REAL,  # that a rank has
    },
)
"""`scaling-<model>-<topology>.csv`: a row for each sharding, scaling and world size."""

CHECKS = TableFile(
    what="predictions beside measurements",
    blanks=True,
    columns={
        "machine": TEXT,
        "model": TEXT,
        "backend": TEXT,
        "sharding": TEXT,
        "link": TEXT,  # what ranks send over: loopback, or a rate such as `1 Gbit/s`
        "quantity": TEXT,  # of QUANTITIES
        "unit": TEXT,
        "measured_in": TEXT,  # results file, below results/
        "git_commit": TEXT,  # of that measurement
        "ranks": REAL,
        **bounded("measured"),
        **bounded("predicted"),
        "error": REAL,  # predicted / measured - 1
    },
    digits=12,  # of bytes, which are counted
)
"""`checks.csv`: a row for each point that was both predicted and measured."""

PUBLISHED = TableFile(
    what="predictions beside published figures",
    blanks=True,
    columns={
        "model": TEXT,
        "hardware": TEXT,
        "engine": TEXT,
        "source": TEXT,
        "why": TEXT,
        "ranks": REAL,
        "micro_batch": REAL,
        "published_ratio": REAL,  # samples/s of ZeRO stage 1 over those of DDP
        **bounded("predicted_ratio"),
        "error": REAL,  # predicted / published - 1
    },
)
"""`published.csv`: what was published of ZeRO stage 1 over DDP, and what is predicted of it."""
