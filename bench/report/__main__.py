"""python -m bench.report RESULTS_DIR --out REPORTS_DIR: rebuild reports from committed results.

One figure or table of chosen results:

    python -m bench.report figure RESULTS... --out speedup.pdf    models side by side, for a paper or a slide
    python -m bench.report table RESULTS...                       one row for each model and backend

Either has a --help of its own.
"""

import argparse
import shlex
import sys
from pathlib import Path
from textwrap import fill

from bench.closing import WIDTH, command_parser, print_closing, run_command, this_python
from bench.report import commands
from bench.report.build import render_all, render_report
from bench.report.content import definitions
from bench.report.files import RENDERED
from bench.results.machines import list_machines

COMMANDS = {
    "figure": (commands.figure_parser, commands.draw_figure),
    "table": (commands.table_parser, commands.print_table),
}


def main(arguments: list[str] | None = None) -> int:
    """Draw a figure, print a table, or render every results file; a damaged one stops no other.

    Returns:
        0, or 2 if a file could not be read.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if command := COMMANDS.get(" ".join(given[:1])):
        parser, run = command
        options = parser().parse_intermixed_args(given[1:])
    else:
        options, run = _parser().parse_args(given), _run
    return run_command(lambda: run(options), "interrupted; the same command makes everything anew.")


def _run(options: argparse.Namespace) -> int:
    results: Path = options.results_dir
    if list_machines(results):
        rendered = render_all(results, options.out, options.rendered)
    else:  # of one machine, or of a folder that is no machine's
        rendered = render_report(results, options.out)
    for sentence in rendered.refused:
        print(sentence, file=sys.stderr)
    sentences = [f"{answer.setting}: {answer.short}" for answer in rendered.answers]
    first, *further = sentences or [definitions.NO_ANSWER]
    figure = [this_python(), "-m", "bench.report", "figure", str(results), "--out", "speedup.pdf"]
    print_closing(
        first,
        table="\n".join(fill(f"- {sentence}", WIDTH, subsequent_indent="  ") for sentence in further),
        files=rendered.written,
        next_command=shlex.join(figure),
        purpose="the models side by side",
    )
    return 2 if rendered.refused else 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("bench.report", __doc__)
    parser.add_argument("results_dir", type=Path, metavar="RESULTS_DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="REPORTS_DIR")
    parser.add_argument(
        "--rendered",
        type=Path,
        default=RENDERED,
        metavar="FOLDER",
        help="where each machine has an index.html, too, if RESULTS_DIR is of several (default: rendered)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
