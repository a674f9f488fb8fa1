"""python -m bench.compare BASE NEW: did training become slower, or larger, between two sets of results?

BASE and NEW are results files, folders or git revisions. Without NEW: the working tree; without both: every
results/*.csv of the working tree against its committed version. With --changed a file that is the same on
both sides is only counted, and it is fine if nothing is left to compare.

Exit status: 0 fine, 1 a regression (beyond its tolerance in conf/tolerances.yaml with an interval that
excludes no change, or a backend that no longer runs), 2 nothing, or not every file, could be compared.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from bench.analysis.table_values import distinct_text
from bench.closing import print_closing
from bench.compare.changes import Change, compare
from bench.compare.closing_words import answer_of
from bench.compare.differences import named_differences
from bench.compare.sources import RESULTS, Reader, find_source, folder_source, last_commit_source, pair_files
from bench.compare.tables import WIDTH, render_markdown, render_terminal
from bench.compare.tolerances import TOLERANCES, read_tolerances
from bench.errors import UserError
from bench.report.markdown import escaped

FINE, REGRESSION, NOT_COMPARED = 0, 1, 2

UNCHANGED = None
"""In place of an exit status: a file that is the same on both sides, with --changed."""


@dataclass
class Found:
    """What the pairs of files have shown so far.

    Attributes:
        tables: for the terminal, one for each pair.
        changes: of every pair that has a number on both sides, by its title.
        commands: that measure the pairs with a regression again.
    """

    tables: list[str] = field(default_factory=list)
    changes: dict[str, list[Change]] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)


def main(arguments: list[str] | None = None) -> int:
    """Compare, print, and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        tolerances = read_tolerances(options.tolerances)
        folder = options.results
        base = find_source(options.base, folder) if options.base else last_commit_source(folder)
        new = (
            find_source(options.new, folder)
            if options.new
            else folder_source(Path(folder), "the working tree")
        )
        pairing = pair_files(base, new)
    except UserError as error:
        print(error, file=sys.stderr)
        return NOT_COMPARED
    outcomes: list[int | None] = []
    for stem, read in pairing.new.items():
        try:
            read()
            sentence = f"{stem} is new: {base.name} has no version of it to compare with"
            print(f"- {escaped(sentence)}" if options.markdown else sentence)
        except UserError as error:
            print(error, file=sys.stderr)
            outcomes.append(NOT_COMPARED)
    for stem in pairing.missing:
        print(f"{stem} is in {base.name}, but not in {new.name}; measure it again", file=sys.stderr)
    found = Found()
    if options.markdown and pairing.new:
        print()  # ends the list
    outcomes += [_compare_pair(*pair, tolerances, options, found) for pair in pairing.pairs]
    if options.changed:
        print(f"Results files that are the same as in {base.name}: {outcomes.count(UNCHANGED)}.")
    if not options.markdown and (found.tables or pairing.new):  # else errors have said everything
        uncompared = outcomes.count(NOT_COMPARED) + len(pairing.missing)
        _close(found, uncompared=uncompared, new=len(pairing.new))
    if REGRESSION in outcomes:
        return REGRESSION
    if pairing.missing or NOT_COMPARED in outcomes or not (outcomes or options.changed):
        return NOT_COMPARED
    return FINE


def _compare_pair(
    title: str,
    read_base: Reader,
    read_new: Reader,
    tolerances: Mapping[str, float],
    options: argparse.Namespace,
    found: Found,
) -> int | None:
    """Print one pair's table in Markdown, or keep it for the end.

    Returns:
        Its exit status, or `UNCHANGED` if there is nothing to print.
    """
    try:
        base, new = read_base(), read_new()
        if options.changed and base.equals(new):
            return UNCHANGED
        changes = compare(base, new, tolerances)
    except UserError as error:
        # in the comment of a pull request it is one of many
        print(f"{title}: {error}" if options.markdown else error, file=sys.stderr)
        return NOT_COMPARED
    differences = named_differences(base, new)
    if options.markdown:
        print(render_markdown(title, changes, differences))
    else:
        terminal = Console(width=WIDTH)
        with terminal.capture() as table:
            terminal.print(render_terminal(title, changes, differences))
        found.tables.append(table.get())
    if any(change.regressions for change in changes):
        found.changes[title] = changes
        found.commands += [distinct_text(new, "command")] if "command" in new else []
        return REGRESSION
    if any(change.ratio and change.ratio.low is not None for change in changes):
        found.changes[title] = changes
        return FINE
    print(
        f"{title}: nothing could be compared, since no backend is ok with at least two "
        "launches in both files; measure with measure.launches=2 or more",
        file=sys.stderr,
    )
    return NOT_COMPARED


def _close(found: Found, *, uncompared: int, new: int) -> None:
    """Print the answer, the tables and what to type next."""
    worse = next(iter(filter(None, found.commands)), "")
    next_command, purpose = (
        (worse, "does it become worse again?")
        if worse
        else ("make report", "rebuild tables, figures and page")
        if found.changes and not uncompared
        else ("make bench", "measure what is to be compared")
    )
    print_closing(
        answer_of(found.changes, uncompared=uncompared, new=new),
        table="\n".join(found.tables),
        next_command=next_command,
        purpose=purpose,
    )


def _end_unread() -> NoReturn:
    """The reader has gone, as in `| head`; Python's own exit status would mean a regression."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(NOT_COMPARED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("base", nargs="?", metavar="BASE")
    parser.add_argument("new", nargs="?", metavar="NEW")
    parser.add_argument("--tolerances", type=Path, default=TOLERANCES, metavar="FILE")
    parser.add_argument(
        "--results",
        default=RESULTS,
        metavar="FOLDER",
        help="of the working tree and of revisions, relative to the present folder (default: results)",
    )
    parser.add_argument("--changed", action="store_true", help="only count files that are the same in both")
    parser.add_argument("--markdown", action="store_true", help="print Markdown, for a pull request")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        _end_unread()
