"""python -m bench.report figure RESULTS… --out FILE: draw the models of these results side by side.

RESULTS are results files, or folders of them. Those of different machines get panels of their own. The
ending of --out chooses the format: .svg, .pdf or .png. The caption is printed, too, for a paper's own.
"""

import argparse
import re
import sys
from pathlib import Path

from bench.closing import command_parser
from bench.errors import UserError
from bench.report.content.quantities import KINDS
from bench.report.content.selection import choose_models, parse_names
from bench.report.files import read_results

NARROWEST, WIDEST = 2.5, 40.0
"""Inches."""

UNITS = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
"""Inches of each; `pt` is LaTeX's."""


def run(options: argparse.Namespace) -> int:
    """Draw the figure.

    Returns:
        0, or 2 if a file could not be read.

    Raises:
        UserError: it cannot be drawn.
    """
    comparisons, refused = read_results(options.results)
    width = parse_width(options.width)
    chosen = choose_models(comparisons, options.models)
    from bench.report.figures import model_figures, style  # matplotlib: 1 s that --help need not pay

    caption, left_out = model_figures.write_model_figure(
        chosen,
        options.out,
        of=options.of,
        width=width,
        theme=style.DARK if options.dark else style.LIGHT,
        backends=options.backends,
        title=options.title,
        with_caption=not options.no_caption,
    )
    for sentence in (*refused, *left_out):
        print(sentence, file=sys.stderr)
    print(f"Caption: {caption}")
    print(f"wrote {options.out}")
    return 2 if refused else 0


def parse_width(words: str) -> float:
    """A width in inches, from words such as `3.3in`, `84mm` or `240pt`.

    Raises:
        UserError: it is no width, or one at which nothing can be read.
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(in|cm|mm|pt)?\s*", words)
    if match is None:
        raise UserError(f"{words} is no width", "give one such as --width 3.3in, 84mm or 240pt")
    inches = float(match[1]) * UNITS[match[2] or "in"]
    if not NARROWEST <= inches <= WIDEST:
        raise UserError(
            f"a figure {words.strip()} wide cannot be read", f"give {NARROWEST:g}in to {WIDEST:g}in"
        )
    return inches


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = command_parser("bench.report figure", __doc__)
    made.add_argument("results", nargs="+", type=Path, metavar="RESULTS")
    made.add_argument("--out", type=Path, required=True, metavar="FILE", help="ends in .svg, .pdf or .png")
    made.add_argument(
        "--of",
        choices=KINDS,
        default="speedup",
        help="what to show; breakdown: where a step's time goes",
    )
    made.add_argument("--width", default="3.3in", help="such as 3.3in (the default), 84mm, 240pt")
    made.add_argument("--models", type=parse_names, default=[], metavar="A,B", help="only these")
    made.add_argument(
        "--backends", type=parse_names, default=[], metavar="A,B", help="bars in place of the usual ones"
    )
    made.add_argument("--title", help='in place of its own; "" for none')
    made.add_argument("--no-caption", action="store_true", help="the caption is printed only")
    made.add_argument("--dark", action="store_true", help="for a dark page or slide")
    return made
