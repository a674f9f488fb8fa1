"""python -m bench.report RESULTS_DIR --out REPORTS_DIR: rebuild reports from committed results."""

import argparse
import sys
from pathlib import Path

from bench import report
from bench.errors import UserError
from bench.report import checks, support
from bench.results.atomic import write_atomically


def main(arguments: list[str] | None = None) -> int:
    """Render every results file; a damaged one is named and never stops the others.

    Returns:
        0, or 2 if a file could not be rendered.
    """
    options = _parser().parse_args(arguments)
    try:
        written, refused = report.render(options.results_dir, options.out)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    refused = list(refused)
    selftest = options.results_dir / "selftest"
    if (selftest / "verdicts.csv").exists():
        try:
            write_atomically(options.out / "selftest.md", checks.markdown(selftest))
            written.append(options.out / "selftest.md")
        except UserError as error:
            refused.append(str(error))
    matrix = options.results_dir / "matrix"
    if matrix.is_dir():
        try:
            write_atomically(
                options.out / "support.md", support.markdown(support.read(matrix, support.models()))
            )
            written.append(options.out / "support.md")
        except UserError as error:
            refused.append(str(error))
    for path in written:
        print(path)
    for sentence in refused:
        print(sentence, file=sys.stderr)
    return 2 if refused else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__)
    parser.add_argument("results_dir", type=Path, metavar="RESULTS_DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="REPORTS_DIR")
    return parser


if __name__ == "__main__":
    sys.exit(main())
