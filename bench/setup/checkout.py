"""The folder of this checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the Makefile, the environments, `results/` and `reports/`."""
