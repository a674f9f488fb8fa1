"""The command over chosen results: `python -m bench.report figure …`."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from bench.closing import command_parser
from bench.errors import UserError
from bench.report.content.study_commands import StudyCommand
from bench.studies.models.choosing import choose_models, parse_names, read_results

FIGURE = """python -m bench.report figure RESULTS… --out FILE: draw the models of these results side by side.

RESULTS are results files, or folders of them. Different machines get separate panels. The
ending of --out chooses the format: .svg, .pdf or .png. The caption is printed, for a paper's own.
"""


def draw_figure(options: argparse.Namespace) -> int:
    """Draw the figure; return 2 if a file could not be read, else 0; UserError if it cannot be drawn."""
    if options.out.suffix.lower() not in (".svg", ".pdf", ".png"):
        raise UserError(f"{options.out} is no kind of picture", "let --out end in .svg, .pdf or .png")
    comparisons, refused = read_results(options.results)
    chosen = choose_models(comparisons, options.models)
    from bench.report.figures import picture_files, rows  # matplotlib: 1 s that --help need not pay
    from bench.studies.models.figures import model_chart

    chart, left_out = model_chart(chosen, of=options.of, backends=options.backends, width=options.width)
    chart = replace(chart, title=chart.title if options.title is None else options.title)
    picture_files.write_figure(options.out, lambda: rows.draw_rows(chart, options.width), on_page=False)
    for sentence in (*refused, *left_out):
        print(sentence, file=sys.stderr)
    print(f"Caption: {chart.caption}")
    print(f"wrote {options.out}")
    return 2 if refused else 0


def parse_inches(words: str) -> float:
    """A width such as `3.3in`."""
    return float(words.strip().removesuffix("in"))


def figure_parser() -> argparse.ArgumentParser:
    """The command line of `figure`."""
    parser = command_parser("bench.report figure", FIGURE)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS")
    parser.add_argument("--models", type=parse_names, default=[], metavar="A,B", help="only these")
    parser.add_argument(
        "--backends", type=parse_names, default=[], metavar="A,B", help="bars in place of the answer's"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="ends in .svg, .pdf or .png")
    parser.add_argument("--of", choices=["speedup", "memory"], default="speedup", help="what to show")
    parser.add_argument("--width", type=parse_inches, default="3.3in", help="3.3in by default")
    parser.add_argument("--title", help='in place of the default title; "" for none')
    return parser


COMMANDS = {
    "figure": StudyCommand(
        about="models side by side, for a paper or a slide", parser=figure_parser, run=draw_figure
    )
}
