"""What others published: figures and claims as data, each with its source. Never mixed with our own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent

AT_LARGEST = "max-batch"  # the flag of what was published with each side at its own largest batch

BLOG_BAND = (1.39, 2.30)
"""39 % to 130 % more throughput: the blog of January 2023 on ONNX Runtime with ZeRO-1 (published.csv)."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published speed-up over PyTorch, on hardware of its own: a mark beside ours, never a comparison."""

    model: str
    backend: str
    ratio: float
    hardware: str
    precision: str
    source: str
    flag: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One line of claims.csv."""

    id: str  # names the test
    source: str  # who said it
    claim: str  # what was said
    how_to_test: str  # what must be compared
    testable_on: str  # which hardware decides it
    command: str  # that measures what must be compared


@dataclass(frozen=True, kw_only=True)
class GuidedMethod:
    """One line of guide.csv: what transformers' guide to training on a single GPU says of a method."""

    method: str  # as the guide calls it
    choice: str  # of a backend, in which it consists
    chosen: Sequence[str]  # the values of that choice that it means; any if empty
    improves_speed: str  # `yes`, `no`, or in brackets if it need not be so; empty if the guide does not say
    saves_memory: str  # in the same words
    source: str  # version and page of the guide


def _read(file: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / file, dtype=str, keep_default_na=False)


@cache
def read_guide() -> tuple[GuidedMethod, ...]:
    """The lines of guide.csv, in its order."""
    rows = _read("guide.csv").to_dict("records")
    return tuple(GuidedMethod(**row | {"chosen": row["chosen"].split()}) for row in rows)  # type: ignore[arg-type]


@cache
def read_published_figures() -> pd.DataFrame:
    """published.csv as a table whose cells are all text."""
    return _read("published.csv")


@cache
def read_claims() -> tuple[Claim, ...]:
    """The lines of claims.csv, in its order."""
    return tuple(Claim(**row) for row in _read("claims.csv").to_dict("records"))  # type: ignore[arg-type]


@cache
def published_speedups() -> tuple[Published, ...]:
    """Every published speed-up over `pytorch` of one model: computed where throughputs are, else as stated.

    A range over several models is left out; the blog's is `BLOG_BAND`.
    """
    published = []
    groups = read_published_figures().groupby(
        ["source", "source_ref", "hardware", "model", "task"], sort=False
    )
    for _, group in groups:
        base = group[(group["backend"] == "pytorch") & (group["samples_per_s"] != "")]
        for row in group[group["backend"] != "pytorch"].to_dict("records"):
            if row["flag"] == "range":
                continue
            if row["samples_per_s"] and len(base) == 1:
                ratio = float(row["samples_per_s"]) / float(base["samples_per_s"].iloc[0])
            elif re.fullmatch(r"[\d.]+", row["speedup_percent"]):
                ratio = 1 + float(row["speedup_percent"]) / 100
            else:
                continue
            copied = {key: row[key] for key in ("model", "backend", "precision", "source", "flag", "note")}
            hardware = row["hardware"] or "hardware not stated"
            published.append(Published(ratio=ratio, hardware=hardware, **copied))
    return tuple(published)


def published_speedups_of(model: str) -> list[Published]:
    """The published speed-ups of one model."""
    return [published for published in published_speedups() if published.model == model]
