"""python -m bench.report RESULTS_DIR --out REPORTS_DIR: rebuild reports from committed results."""

import argparse
import sys
from pathlib import Path

from bench import report, results
from bench.errors import UserError
from bench.records import write_atomically
from bench.report import checks


def main(arguments: list[str] | None = None) -> int:
    """Render every results file; a damaged one is named and never stops the others.

    Returns:
        0, or 2 if a file could not be rendered.
    """
    options = _parser().parse_args(arguments)
    try:
        files = _chosen(results.files(options.results_dir), options.only)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    status = 0
    for file in files:
        try:
            print(*report.render(file, options.out), sep="\n")
        except UserError as error:
            print(error, file=sys.stderr)
            status = 2
    selftest = options.results_dir / "selftest"
    if options.only is None and (selftest / "verdicts.csv").exists():
        try:
            write_atomically(options.out / "selftest.md", checks.markdown(selftest))
            print(options.out / "selftest.md")
        except UserError as error:
            print(error, file=sys.stderr)
            status = 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__)
    parser.add_argument("results_dir", type=Path, metavar="RESULTS_DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="REPORTS_DIR")
    parser.add_argument("--only", metavar="STEM", help="one comparison: its file name without .csv")
    return parser


def _chosen(files: list[Path], stem: str | None) -> list[Path]:
    chosen = [file for file in files if stem in (None, file.stem)]
    if not chosen:
        stems = ", ".join(file.stem for file in files)
        raise UserError(f"--only {stem} is not there; choose one of: {stems}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
