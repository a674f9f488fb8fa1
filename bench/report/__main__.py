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
from bench.report import definitions, figure_command, table_command
from bench.report.render import render_other_pages, render_report


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
        rendered = render_report(options.results_dir, options.out)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    others, others_refused = render_other_pages(options.results_dir, options.out)
    for sentence in (*rendered.refused, *others_refused):
        print(sentence, file=sys.stderr)
    answer, *further = rendered.answers or [definitions.NO_ANSWER]
    print_closing(
        answer,
        table="\n".join(fill(f"- {sentence}", WIDTH, subsequent_indent="  ") for sentence in further),
        files=[*rendered.written[:3], *others, *rendered.written[3:]],
        next_command=shlex.join(
            [this_python(), "-m", "bench.report", "figure", str(options.results_dir), "--out", "speedup.pdf"]
        ),
        purpose="the models side by side",
    )
    return 2 if rendered.refused or others_refused else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results_dir", type=Path, metavar="RESULTS_DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="REPORTS_DIR")
    return parser


if __name__ == "__main__":
    sys.exit(main())
