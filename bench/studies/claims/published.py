"""What others published, as data with its source (published.csv). Never mixed with our own."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

BLOG_LOWEST = 1.39
"""39 % to 130 % more throughput: the blog of January 2023 on ONNX Runtime with ZeRO-1."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One line of published.csv."""

    id: str  # names the test
    source: str  # who said it
    claim: str  # what was said
    how_to_test: str  # what must be compared
    testable_on: str  # which hardware decides it
    command: str  # that measures what must be compared


@cache
def read_claims() -> tuple[Claim, ...]:
    """The lines of published.csv, in its order."""
    rows = pd.read_csv(Path(__file__).with_suffix(".csv"), dtype=str, keep_default_na=False)
    return tuple(Claim(**row) for row in rows.to_dict("records"))  # type: ignore[arg-type]
