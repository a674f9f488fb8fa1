"""The commands over chosen results: `python -m bench.report figure …` and `… table …`."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from bench.closing import command_parser
from bench.errors import UserError
from bench.report.content.backend_columns import IN_SUMMARY, PAPER, BackendRow, backend_table, rows_of
from bench.report.content.blocks import Block, Bold, Bullets, Paragraph
from bench.report.content.study_commands import StudyCommand
from bench.report.render.csv import render_csv
from bench.report.render.markdown import render_markdown
from bench.results.atomic import write_atomically
from bench.studies.models.choosing import (
    choose_backends,
    choose_models,
    panels_of,
    parse_names,
    read_results,
    showable,
)
from bench.study import list_figures

FIGURE = """python -m bench.report figure RESULTS… --out FILE: draw the models of these results side by side.

RESULTS are results files, or folders of them. Different machines get separate panels. The
ending of --out chooses the format: .svg, .pdf or .png. The caption is printed, for a paper's own.
"""

TABLE = """python -m bench.report table RESULTS…: one row for each model and backend, to paste elsewhere.

RESULTS are results files, or folders of them.
"""

NARROWEST, WIDEST = 2.5, 40.0  # inches


def draw_figure(options: argparse.Namespace) -> int:
    """Draw the figure; return 2 if a file could not be read, else 0; UserError if it cannot be drawn."""
    width = parse_width(options.width)
    if options.out.suffix.lower() not in (".svg", ".pdf", ".png"):
        raise UserError(f"{options.out} is no kind of picture", "let --out end in .svg, .pdf or .png")
    comparisons, refused = read_results(options.results)
    chosen = choose_models(comparisons, options.models)
    from bench.report.figures import picture_files, rows  # matplotlib: 1 s that --help need not pay
    from bench.studies.models.figures import model_chart

    chart, left_out = model_chart(chosen, of=options.of, backends=options.backends, width=width)
    chart = replace(chart, title=chart.title if options.title is None else options.title)
    picture_files.write_figure(options.out, lambda: rows.draw_rows(chart, width), on_page=False)
    for sentence in (*refused, *left_out):
        print(sentence, file=sys.stderr)
    print(f"Caption: {chart.caption}")
    print(f"wrote {options.out}")
    return 2 if refused else 0


def parse_width(words: str) -> float:
    """A width in inches, such as `3.3in`.

    UserError if it is no width, or one at which nothing can be read.
    """
    try:
        inches = float(words.strip().removesuffix("in"))
    except ValueError:
        raise UserError(f"{words} is no width", "give inches, such as --width 3.3in") from None
    if not NARROWEST <= inches <= WIDEST:
        raise UserError(f"a figure {words} wide cannot be read", f"give {NARROWEST:g}in to {WIDEST:g}in")
    return inches


def print_table(options: argparse.Namespace) -> int:
    """Print the table, or write it; return 2 if a file could not be read, else 0.

    UserError if there is no such table.
    """
    comparisons, refused = read_results(options.results)
    chosen = choose_models(comparisons, options.models)
    left_out: list[str] = []
    if not options.csv:  # which says of every row whether it is a result
        chosen, left_out = showable(chosen, as_speedup=True)
    panels = {"": chosen} if options.csv else panels_of(chosen)
    tables = {machine: rows_of(group) for machine, group in panels.items()}
    if options.backends:
        wanted = choose_backends(chosen, options.backends)
        tables = {
            machine: [row for row in rows if row.summary.is_reference or row.summary.backend in wanted]
            for machine, rows in tables.items()
        }
    text = (csv_table if options.csv else markdown_tables)(tables)
    for sentence in (*refused, *left_out):
        print(sentence, file=sys.stderr)
    if options.out is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        write_atomically(options.out, text)
        print(f"wrote {options.out}")
    return 2 if refused else 0


def markdown_tables(by_machine: Mapping[str, Sequence[BackendRow]]) -> str:
    """A table for each machine, under its name."""
    blocks: list[Block] = []
    for machine, rows in by_machine.items():
        blocks += [Paragraph(Bold(machine)), backend_table(PAPER, rows)]
        notes = [
            ", ".join(filter(None, [row.comparison.label, row.distinction, row.summary.backend]))
            + f": {row.summary.message}"
            for row in rows
            if row.summary.message and row.summary.speedup is None
        ]
        blocks += [Bullets(notes)] if notes else []
    return render_markdown(blocks)


def csv_table(by_machine: Mapping[str, Sequence[BackendRow]]) -> str:
    """A line for each row of all machines."""
    return render_csv(list(chain.from_iterable(by_machine.values())), IN_SUMMARY)


def figure_parser() -> argparse.ArgumentParser:
    """The command line of `figure`."""
    parser = _parser("figure", FIGURE, "bars in place of the usual ones")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="ends in .svg, .pdf or .png")
    kinds = ["speedup", "memory", *list_figures()]
    parser.add_argument("--of", choices=kinds, default="speedup", help="what to show")
    parser.add_argument("--width", default="3.3in", help="inches, 3.3in by default")
    parser.add_argument("--title", help='in place of the default title; "" for none')
    return parser


def table_parser() -> argparse.ArgumentParser:
    """The command line of `table`."""
    parser = _parser("table", TABLE, "only these and the reference")
    parser.add_argument(
        "--csv", action="store_true", help="every figure with its digits, in place of Markdown"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write it there in place of printing it")
    return parser


def _parser(name: str, usage: str, about_backends: str) -> argparse.ArgumentParser:
    parser = command_parser(f"bench.report {name}", usage)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS")
    parser.add_argument("--models", type=parse_names, default=[], metavar="A,B", help="only these")
    parser.add_argument("--backends", type=parse_names, default=[], metavar="A,B", help=about_backends)
    return parser


COMMANDS = {
    "figure": StudyCommand(
        about="models side by side, for a paper or a slide", parser=figure_parser, run=draw_figure
    ),
    "table": StudyCommand(about="one row for each model and backend", parser=table_parser, run=print_table),
}
