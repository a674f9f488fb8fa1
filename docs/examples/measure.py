"""Measure a comparison from Python: `.venv/bin/python -m docs.examples.measure model=bert-tiny`."""

import sys

from bench.api import measure

result = measure(*sys.argv[1:])
for backend in result.backends:
    if backend.speedup:
        print(f"{backend.backend}: {backend.speedup.ratio:.3f}, {backend.verdict}")
print(result.rows.groupby("backend")["samples_per_s"].median())
