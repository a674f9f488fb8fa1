"""python -m bench.report RESULTS_DIR --out REPORTS_DIR: rebuild reports from committed results.

One figure or table of chosen results:

    python -m bench.report figure RESULTS... --out speedup.pdf    models side by side, for a paper or a slide
    python -m bench.report table RESULTS... --markdown            one row for each model and backend

Either has a --help of its own.
"""

import argparse
import shlex
import sys
from pathlib import Path
from textwrap import fill

from bench.closing import WIDTH, print_closing, this_python
from bench.errors import UserError
from bench.report import figure_command, table_command
from bench.report.build import Rendered, render_all, render_report
from bench.report.content import definitions
from bench.report.files import RENDERED
from bench.results.machines import list_machines


def main(arguments: list[str] | None = None) -> int:
    """Draw a figure, print a table, or render every results file; a damaged one stops no other.

    Returns:
        0, or 2 if a file could not be rendered.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["figure"]:
        return figure_command.main(arguments[1:])
    if arguments[:1] == ["table"]:
        return table_command.main(arguments[1:])
    options = _parser().parse_args(arguments)
    try:
        rendered = _render(options)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    for sentence in rendered.refused:
        print(sentence, file=sys.stderr)
    sentences = [f"{one.setting}: {one.short}" for one in rendered.answers]
    answer, *further = sentences or [definitions.NO_ANSWER]
    print_closing(
        answer,
        table="\n".join(fill(f"- {sentence}", WIDTH, subsequent_indent="  ") for sentence in further),
        files=rendered.written,
        next_command=shlex.join(
            [this_python(), "-m", "bench.report", "figure", str(options.results_dir), "--out", "speedup.pdf"]
        ),
        purpose="the models side by side",
    )
    return 2 if rendered.refused else 0


def _render(options: argparse.Namespace) -> Rendered:
    """Of all machines, or of one, or of a folder that is no machine's."""
    if list_machines(options.results_dir):
        return render_all(options.results_dir, options.out, options.rendered)
    return render_report(options.results_dir, options.out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
