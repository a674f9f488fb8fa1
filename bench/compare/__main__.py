"""python -m bench.compare [BASE [NEW]]: did training become slower, or larger, between two results?

BASE and NEW are results files, folders or git revisions. Without NEW: the working tree; without both: what in
it differs from its last commit. Files that are the same on both sides are only counted.
A file that BASE does not have is compared with that of another host of the same kind, where there is one.

Exit status: 0 nothing became worse beyond its tolerance (conf/tolerances.yaml), 1 a regression (beyond it
with an interval that excludes no change, or a backend that no longer runs), 2 a damaged file, or files that
cannot be compared.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import yaml  # type: ignore[import-untyped]
from rich.console import Console, RenderableType

from bench.closing import WIDTH, command_parser, print_closing, run_command
from bench.compare.changes import TOLERANCES, BackendChange, compare
from bench.compare.differences import are_of_one_host, named_differences
from bench.compare.hosts import estimate_host_spread, find_on_another_host, read_results, read_same_model
from bench.compare.kinds import HostSpread
from bench.compare.sources import (
    RESULTS,
    Pairing,
    ResultsFile,
    Source,
    find_source,
    folder_source,
    last_commit_source,
    pair_files,
)
from bench.compare.tables import render_markdown, render_terminal
from bench.errors import UserError, plural
from bench.report.words.formatting import as_sentence
from bench.statistics.table_values import distinct_text

FINE, REGRESSION, NOT_COMPARED = 0, 1, 2

MOST_SHOWN = 3
"""New files, gone ones, regressions, and differences between hosts that are named, not only counted."""


@dataclass(frozen=True, kw_only=True)
class ComparedPair:
    """What differs between two versions of a file."""

    changes: list[BackendChange]
    differences: list[str]
    command: str  # that measures the newer one again; empty if the file does not say
    hosts: HostSpread | None = None  # how much hosts of the kind differ, if the two are not of the same one

    @property
    def is_worse(self) -> bool:
        """Whether something became worse beyond its tolerance."""
        return any(change.regressions for change in self.changes)

    @property
    def notes(self) -> list[str]:
        """The notes below the table; between hosts, where much differs, only the first differences."""
        if self.hosts is None:
            return self.differences or ["nothing differs in the environment"]
        judged = "not known to be the same host: judged is the change of each speed-up; its interval contains"
        more = "; …" * (len(self.differences) > MOST_SHOWN)
        named = "; ".join(self.differences[:MOST_SHOWN]) or "nothing"
        return [f"{judged} {self.hosts}", f"also different: {named}{more}"]

    @property
    def has_numbers(self) -> bool:
        """Whether a change of any backend has an interval."""
        return any(change.ratio and change.ratio.low is not None for change in self.changes)


@dataclass(kw_only=True)
class ComparedSources:
    """What has been compared so far; stderr says why a file could not be compared."""

    base: Source
    pairing: Pairing
    pairs: dict[str, ComparedPair] = field(default_factory=dict)
    new: Sequence[str] = ()  # places that BASE does not have
    uncompared: int = 0

    def refuse(self, sentence: object) -> None:
        """Say why a file is not compared, and count it."""
        print(sentence, file=sys.stderr)
        self.uncompared += 1

    @property
    def pairs_to_show(self) -> dict[str, ComparedPair]:
        """The pairs that became worse, or all if none did."""
        return {title: pair for title, pair in self.pairs.items() if pair.is_worse} or self.pairs

    @property
    def status(self) -> int:
        """The exit status."""
        if any(pair.is_worse for pair in self.pairs.values()):
            return REGRESSION
        compared = self.pairs or self.new or self.pairing.missing or self.pairing.unchanged
        return NOT_COMPARED if self.uncompared or not compared else FINE

    @property
    def answer(self) -> str:
        """How many comparisons became worse, and which; how many files are new, gone or the same."""
        worse = [
            f"{change.backend} of {title} ({', '.join(change.regressions)})"
            for title, pair in self.pairs.items()
            for change in pair.changes
            if change.regressions
        ]
        well = sum(pair.has_numbers and not pair.is_worse for pair in self.pairs.values())
        counts = (
            (well, "file", "did not become worse"),
            (self.uncompared, "file", "could not be compared"),
            (len(self.new), "new file", ""),
            (len(self.pairing.missing), "missing file", ""),
            (self.pairing.unchanged, "file", f"unchanged since {self.base.name}"),
        )
        said = [f"{plural(count, noun)} {words}".rstrip() for count, noun, words in counts if count]
        if worse:
            more = f" and {len(worse) - MOST_SHOWN} more" if len(worse) > MOST_SHOWN else ""
            said.insert(0, f"worse beyond the tolerance: {', '.join(worse[:MOST_SHOWN])}{more}")
        return as_sentence("; ".join(said or ["nothing was compared"]))


def main(arguments: list[str] | None = None) -> int:
    """Compare, print, and return the exit status."""
    parser = command_parser("bench.compare", __doc__)
    parser.add_argument("base", nargs="?", metavar="BASE")
    parser.add_argument("new", nargs="?", metavar="NEW")
    parser.add_argument(
        "--results",
        default=RESULTS,
        metavar="FOLDER",
        help="of the working tree and of revisions, relative to the present folder (default: results)",
    )
    parser.add_argument("--format", choices=FORMATS, default="terminal", help="markdown: for a pull request")
    options = parser.parse_args(arguments)
    return run_command(lambda: _run(options), "interrupted.")


def _run(options: argparse.Namespace) -> int:
    folder = options.results
    tolerances = yaml.safe_load(TOLERANCES.read_text(encoding="utf-8"))
    base = find_source(options.base, folder) if options.base else last_commit_source(folder)
    new = find_source(options.new, folder) if options.new else folder_source(Path(folder), "the working tree")
    compared = ComparedSources(base=base, pairing=pair_files(base, new))
    for title, old, now in compared.pairing.pairs:
        _compare_pair(title, old, now, tolerances, compared)
    if compared.pairing.new:
        _compare_new(compared, tolerances)
    FORMATS[options.format](compared)
    return compared.status


def _compare_pair(
    title: str, old: ResultsFile, now: ResultsFile, tolerances: Mapping[str, float], compared: ComparedSources
) -> None:
    try:
        pair = _make_pair(old.read(), now.read(), tolerances, compared.base)
    except UserError as error:
        names_file = str(error).startswith((old.name, now.name))
        compared.refuse(error if names_file else f"{title}: {error}")
        return
    compared.pairs[title] = pair
    if not pair.has_numbers and not pair.is_worse:
        compared.refuse(
            f"{title}: nothing could be compared, since no backend is the same and ok with at least "
            "two launches in both files; measure with measure.launches=2 or more"
        )


def _make_pair(
    base: pd.DataFrame, new: pd.DataFrame, tolerances: Mapping[str, float], source: Source
) -> ComparedPair:
    is_one_host = are_of_one_host(base, new)
    hosts = None if is_one_host else estimate_host_spread(read_same_model(source, [new]))
    return ComparedPair(
        changes=compare(base, new, tolerances, hosts),
        differences=named_differences(base, new),
        command=distinct_text(new, "command"),
        hosts=hosts,
    )


def _compare_new(compared: ComparedSources, tolerances: Mapping[str, float]) -> None:
    new = read_results(compared.pairing.new, compared.refuse)
    compared.new = [*new]
    known = read_same_model(compared.base, [results.rows for results in new.values()])
    for place, results in new.items():
        if other := find_on_another_host(place, results, known):
            with suppress(UserError):  # they cannot be compared
                pair = _make_pair(known[other].rows, results.rows, tolerances, compared.base)
                if pair.has_numbers:
                    compared.pairs[f"{place}, beside {other}"] = pair


def _print_markdown(compared: ComparedSources) -> None:
    for title, pair in compared.pairs_to_show.items():
        print(render_markdown(title, pair.changes, pair.notes))
    base, pairing = compared.base, compared.pairing
    for place in compared.new:
        print(f"- {place} is new")
    for place in pairing.missing:
        print(f"- {place} is gone: only {base.name} has it")
    if not base.single:
        print(f"\nResults files that are the same as in {base.name}: {pairing.unchanged}.")


def _print_for_terminal(compared: ComparedSources) -> None:
    """Print the answer, the tables and what to type next; the answer alone if nothing has changed."""
    pairs, base = compared.pairs, compared.base.name
    new, missing = compared.new, compared.pairing.missing
    if not (pairs or new or missing):
        if compared.pairing.unchanged and not compared.uncompared:  # else errors have said everything
            print(compared.answer)
        return
    parts: list[RenderableType] = [
        *(render_terminal(title, pair.changes, pair.notes) for title, pair in compared.pairs_to_show.items()),
        *(f"{place} is new" for place in new[:MOST_SHOWN]),
        *_count_more(len(new), "more new file", "; --format=markdown shows all"),
        *(f"{place} is gone: only {base} has it" for place in missing[:MOST_SHOWN]),
        *_count_more(len(missing), "more file", f" only {base} has"),
    ]
    terminal = Console(width=WIDTH, highlight=False, markup=False)
    with terminal.capture() as tables:
        for part in parts:
            terminal.print(part)
            terminal.print()
    next_command, purpose = "make report", "rebuild tables, figures and page"
    if compared.uncompared:
        next_command, purpose = "make bench", "measure what is to be compared"
    if worse := next((pair.command for pair in pairs.values() if pair.is_worse and pair.command), ""):
        next_command, purpose = worse, "does it become worse again?"
    print_closing(compared.answer, table=tables.get(), next_command=next_command, purpose=purpose)


def _count_more(count: int, noun: str, words: str) -> list[str]:
    return [f"and {plural(count - MOST_SHOWN, noun)}{words}"] if count > MOST_SHOWN else []


FORMATS = {"terminal": _print_for_terminal, "markdown": _print_markdown}
"""What prints a comparison, by the name of its format."""


if __name__ == "__main__":
    sys.exit(main())
