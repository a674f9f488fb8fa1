"""What a backend takes to begin: room on disk, memory, and time until the first step is done."""

from dataclasses import dataclass

import pandas as pd

from bench.results.column_arrays import ColumnArrays
from bench.statistics.backend_blocks import RUNTIME, blocks_by_backend, highest


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """One backend; sizes in MiB, times in seconds, of the rank that has most; None where nobody knows."""

    backend: str
    installed: float  # packages on disk, of which the process uses something
    loaded: float | None  # files that training starts from
    imported_s: float | None  # until all libraries are imported; median over launches, like the next
    first_step_s: float | None  # until the first step is done, set-up included
    runtime: float | None  # memory of the process before there is a model
    peak: float | None  # memory in the timed steps


def find_beginnings(rows: pd.DataFrame) -> list[Beginning]:
    """The beginning of each backend with valid blocks; empty for files of before this was recorded."""
    beginnings = []
    for backend, blocks in blocks_by_backend(ColumnArrays(rows)).items():
        valid = blocks.valid
        if (installed := highest(valid["installed_mib"])) is None:
            continue
        setup, first = (blocks.median_over_launches(column) for column in ("setup_s", "first_step_s"))
        beginnings.append(
            Beginning(
                backend=backend,
                installed=installed,
                loaded=highest(valid["loaded_mib"]),
                imported_s=blocks.median_over_launches("import_s"),
                first_step_s=None if setup is None or first is None else setup + first,
                runtime=highest(valid[RUNTIME.get(blocks.peak_column, "host_runtime_mib")]),
                peak=highest(blocks.peaks_mib()),
            )
        )
    return beginnings
