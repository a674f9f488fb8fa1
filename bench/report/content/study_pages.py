"""Pages that studies make of many comparisons: beside the page of a machine, or over all machines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from bench.report.content.blocks import Picture
from bench.report.content.collection import ReportedComparison, collect, with_distinct_titles
from bench.study import load_parts

ByMachine: TypeAlias = Mapping[str, Sequence[ReportedComparison]]
"""Comparisons by the machine's name; those of a machine have different titles."""


@dataclass(frozen=True, kw_only=True)
class WrittenPage:
    """The outcome of making a page."""

    files: Sequence[Path] = ()  # the page first; none where there is nothing to say
    pictures: Sequence[Picture] = ()  # to show above the link to it


@dataclass(frozen=True, kw_only=True)
class StudyPage:
    """A page of a study: `PAGE` in its `pages.py`."""

    about: str  # the text of the link to it
    folders: Sequence[str]  # of a machine's results, whose comparisons it is made of
    over_machines: bool = False  # one over all machines, in place of one beside the page of each
    # writes it into a folder; over all machines there may be no comparison
    write: Callable[[ByMachine, Path], WrittenPage]


def find_pages(*, over_machines: bool) -> list[StudyPage]:
    """The pages of all studies, of one of the two kinds."""
    pages: list[StudyPage] = [part.PAGE for part in load_parts("pages").values()]
    return [page for page in pages if page.over_machines is over_machines]


def write_page(page: StudyPage, results: Iterable[Path], out_dir: Path) -> tuple[WrittenPage, Sequence[str]]:
    """Make a page of these results files alone; also a sentence for each that could not be read."""
    collection = collect(results)
    (comparisons,) = with_distinct_titles([collection.comparisons])
    written = page.write({"": comparisons}, out_dir) if comparisons else WrittenPage()
    return written, collection.refused
