"""python -m bench.studies.explain [RESULTS]: where each backend's time goes in a comparison measured before.

It goes on with that comparison (resume=true measure.explain=true): parity is checked again, since it leaves
the weights to profile with, and what crashed is tried again; no other launch is made.
Machine, packages and the harness's code must be those that it was measured with.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.__main__ import measure_and_report
from bench.closing import RESUMABLE, command_parser, run_command
from bench.config.compose import compose
from bench.errors import UserError
from bench.measure.plan.preflight import check_and_name
from bench.measure.plan.resolve import make_output
from bench.measure.record.resume import FINAL
from bench.report.files import files_of
from bench.results import csv_files
from bench.statistics.summary import summarise
from bench.statistics.table_values import count_launches, latest_overrides


def main(arguments: list[str] | None = None) -> int:
    """Profile the backends of a results file; the exit status, as that of `python -m bench`."""
    parser = command_parser("bench.studies.explain", __doc__)
    newest = "a results file (default: this machine's newest)"
    parser.add_argument("results", nargs="?", type=Path, metavar="RESULTS", help=newest)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="where reports go: reports_dir=…")
    options = parser.parse_args(arguments)
    return run_command(lambda: _run(options.results or find_newest(), options.overrides), RESUMABLE)


def _run(path: Path, places: Sequence[str]) -> int:
    rows = csv_files.read(path)
    launches = count_launches(rows)
    if not launches:
        raise UserError(f"{path} has no timed launch to explain", "measure with `make bench` first")
    base, anew = summarise(rows)[0], f"measure it anew with {rows['command'].iloc[-1]}"
    if base.status in ("invalid", *FINAL):  # another status may change: resuming tries again
        why = f"{base.status}: {base.message}"
        raise UserError(f"{path}: {base.backend}, the reference, has no result ({why})", anew)
    to_explain = ["resume=true", "measure.explain=true", f"measure.launches={launches}"]
    to_explain += [f"measure.most_launches={launches}", f"results_dir={path.parent}", *places]
    config = compose([*latest_overrides(rows), *to_explain])
    stem = check_and_name(config)
    if stem != path.stem:
        raise UserError(
            f"{path} is not of this machine or stack, where its comparison is called {stem}.csv",
            "call this where it was measured, or add STACK=… to make",
        )
    if make_output(config, stem).nothing_written_marker.exists():
        raise UserError(
            f"{path} was about to be replaced by a new run, which ended before its first round",
            anew,
        )
    failures = measure_and_report(config, stem)
    print(*failures, sep="\n", end="\n" if failures else "", file=sys.stderr)
    return 1 if failures else 0


def find_newest() -> Path:
    """The results file of this machine that was written last; UserError if there is none."""
    machine = Path(compose().results_dir).parent
    paths = files_of(*machine.glob("*/"))
    if not paths:
        raise UserError(f"{machine} holds no results file", "measure with `make bench` first")
    return max(paths, key=lambda path: path.stat().st_mtime)


if __name__ == "__main__":
    sys.exit(main())
