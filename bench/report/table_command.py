"""python -m bench.report table RESULTS…: one row for each model and backend, for a pull request or a paper.

RESULTS are results files, or folders of them.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.closing import command_parser
from bench.report.content.backend_columns import BackendRow, rows_of
from bench.report.content.selection import choose_backends, choose_models, parse_names, showable
from bench.report.files import read_results
from bench.report.pages.summary import summary_csv, summary_latex, summary_markdown
from bench.results.atomic import write_atomically

FORMATS: dict[str, tuple[Callable[[Sequence[BackendRow]], str], str]] = {
    "markdown": (summary_markdown, "for a pull request (the default)"),
    "latex": (summary_latex, "for a paper; needs the package booktabs"),
    "csv": (summary_csv, "tidy, with every figure and its digits"),
}
"""What renders each, and its --help."""


def run(options: argparse.Namespace) -> int:
    """Print the table, or write it.

    Returns:
        0, or 2 if a file could not be read.

    Raises:
        UserError: there is no such table.
    """
    comparisons, refused = read_results(options.results)
    chosen = choose_models(comparisons, options.models)
    left_out: list[str] = []
    if options.format != "csv":  # which says of every row whether it is a result
        chosen, left_out = showable(chosen, as_speedup=True)
    rows = rows_of(chosen)
    if options.backends:
        wanted = choose_backends(chosen, options.backends)
        rows = [row for row in rows if row.summary.is_reference or row.summary.backend in wanted]
    for sentence in (*refused, *left_out):
        print(sentence, file=sys.stderr)
    render, _ = FORMATS[options.format]
    text = render(rows)
    if options.out is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        write_atomically(options.out, text)
        print(f"wrote {options.out}")
    return 2 if refused else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = command_parser("bench.report table", __doc__)
    made.add_argument("results", nargs="+", type=Path, metavar="RESULTS")
    formats = made.add_mutually_exclusive_group()
    for name, (_, purpose) in FORMATS.items():
        formats.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=purpose)
    made.set_defaults(format="markdown")
    made.add_argument("--models", type=parse_names, default=[], metavar="A,B", help="only these")
    made.add_argument(
        "--backends", type=parse_names, default=[], metavar="A,B", help="only these and the reference"
    )
    made.add_argument("--out", type=Path, metavar="FILE", help="write it there in place of printing it")
    return made
