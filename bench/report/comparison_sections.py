"""What a comparison's page says besides its table: of the beginning, and of what is left after training."""

import math
from typing import Any

from bench.report import definitions
from bench.report.collection import ReportedComparison
from bench.report.formatting import number, one_line, small
from bench.report.markdown import table

BEGINNING_COLUMNS = (
    "backend",
    "packages on disk MiB",
    "files to start from MiB",
    "imports s",
    "until the first step is done s",
    "memory before there is a model MiB",
    "peak memory MiB",
)
EXPORT_COLUMNS = (
    "backend",
    "status",
    "exported MiB",
    "largest output",
    "difference from PyTorch",
    "difference from the reference's",
    "inference ms (median, 95 % interval)",
)
CHECKPOINT_COLUMNS = (
    "backend",
    "status",
    "on disk MiB",
    "save s",
    "load s",
    "difference after loading",
)


def beginnings(comparison: ReportedComparison) -> list[str]:
    """What backends take to begin, where that is known."""
    if not comparison.beginnings:
        return []
    cells = [
        [
            one_line(one.backend),
            number(one.installed),
            number(one.loaded),
            number(one.imported_s, 3),
            number(one.first_step_s, 3),
            number(one.runtime),
            number(one.peak),
        ]
        for one in comparison.beginnings
    ]
    return [
        "## What each backend takes to begin",
        "",
        *table(list(BEGINNING_COLUMNS), cells, numeric={*BEGINNING_COLUMNS[1:]}),
        *definitions.BEGINNING,
        "",
    ]


def exported_models(comparison: ReportedComparison) -> list[str]:
    """What trained models are worth after export, where they were exported."""
    if comparison.exported is None:
        return []
    rows = comparison.exported.to_dict("records")
    cells = [
        [
            one_line(row["backend"]),
            one_line(": ".join(filter(None, [row["status"], row["message"]]))),
            number(_known(row["exported_mib"])),
            number(_known(row["output_scale"])),
            small(_known(row["difference"])),
            small(_known(row["difference_from_reference"])),
            _latency(row),
        ]
        for row in rows
    ]
    return [
        "## After training",
        "",
        *table(list(EXPORT_COLUMNS), cells, numeric={*EXPORT_COLUMNS[2:]}),
        *definitions.EXPORTED,
        "",
    ]


def saved_states(comparison: ReportedComparison) -> list[str]:
    """What became of checkpoints, where they were saved."""
    if comparison.checkpoints is None:
        return []
    cells = [
        [
            one_line(row["backend"]),
            one_line(": ".join(filter(None, [row["status"], row["message"]]))),
            number(_known(row["checkpoint_mib"])),
            number(_known(row["save_s"]), 3),
            number(_known(row["load_s"]), 3),
            small(_known(row["difference"])),
        ]
        for row in comparison.checkpoints.to_dict("records")
    ]
    return [
        "## Checkpoints",
        "",
        *table(list(CHECKPOINT_COLUMNS), cells, numeric={*CHECKPOINT_COLUMNS[2:]}),
        *definitions.CHECKPOINTS,
        "",
    ]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _latency(row: dict[Any, Any]) -> str:
    low, high = (number(_known(row[f"inference_{bound}_ms"]), 3) for bound in ("low", "high"))
    return f"{number(_known(row['inference_ms']), 3)} [{low}, {high}]"
