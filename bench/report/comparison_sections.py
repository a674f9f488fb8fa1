"""What a comparison's section says besides its table: of the beginning, the target, and what is left."""

import math
from typing import Any

from bench.report import convergence_words as words
from bench.report import definitions
from bench.report.collection import ReportedComparison
from bench.report.formatting import MISSING, number, one_line, ratio_and_interval, small
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
TARGET_COLUMNS = (
    "backend",
    "reached in",
    "seconds",
    "seconds with start",
    "steps",
    "sooner",
    "sooner with start",
    "fewer steps",
    "final loss",
    "difference of final loss",
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
        "**What each backend takes to begin**",
        "",
        *table(list(BEGINNING_COLUMNS), cells, numeric={*BEGINNING_COLUMNS[1:]}),
        *definitions.BEGINNING,
        "",
    ]


def time_to_target(comparison: ReportedComparison) -> list[str]:
    """How soon backends come to the target, and to which end, where that was followed."""
    found = comparison.convergence
    if found is None:
        return []
    cells = [
        [
            one_line(one.backend),
            words.reached(one) if one.status == "ok" else one.status,
            words.at_target(one, one.seconds),
            words.at_target(one, one.with_start),
            words.at_target(one, one.steps),
            ratio_and_interval(one.sooner),
            ratio_and_interval(one.sooner_with_start),
            ratio_and_interval(one.fewer_steps),
            words.mean(one.final_loss) if one.status == "ok" else MISSING,
            words.final_loss(one),
        ]
        for one in found.backends
    ]
    return [
        "**Time to the target**",
        "",
        f"Held-out loss to reach: {found.target:g}. Margin of final losses: ± {found.margin:g}.",
        "",
        *table(list(TARGET_COLUMNS), cells, numeric={*TARGET_COLUMNS[2:]}),
        *definitions.TARGET,
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
        "**After training**",
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
        "**Checkpoints**",
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
