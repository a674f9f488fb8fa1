"""What a sweep makes of the results of its comparisons, again and again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report.build import render_report, write_methods, write_support
from bench.report.files import reported_folders

Written = tuple[Sequence[Path], Sequence[str]]
"""The files, the most important first, and what could not be read, in sentences."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How a summary is kept up to date."""

    # is given the folder of a study's results and that of the machine's report
    write: Callable[[Path, Path], Written]
    after_each: bool  # it takes no time, so that it is rebuilt after each comparison and not only at the end


def _write_report(results_dir: Path, out_dir: Path) -> Written:
    folder, _ = reported_folders(results_dir, out_dir)
    rendered = render_report(folder, out_dir)
    return rendered.written, rendered.refused


SUMMARIES = {
    "methods": Summary(write=write_methods, after_each=True),
    "support": Summary(write=write_support, after_each=True),
    "report": Summary(write=_write_report, after_each=False),
}
"""By the name that a plan has for it (`bench.sweeps.plan_file.Plan.summary`)."""
