"""Records with known reports, and what was made of them."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from rich.console import Console

from bench.report.collection import ReportedComparison
from bench.report.comparison_page import render_comparison
from bench.report.comparison_terminal import render_terminal
from bench.report.render import render_comparisons
from bench.results import csv_files
from bench.results.records import Record
from tests.support.factories import comparison, failed, phase

SECONDS = {"pytorch": [[2.0], [2.0]], "ortmodule": [[1.6], [1.6]]}


def golden_records() -> list[Record]:
    late = phase((28.0, 1.0))
    return [
        *comparison({"pytorch": SECONDS["pytorch"]}),
        *comparison({"ortmodule": SECONDS["ortmodule"]}, first_step=late),
        failed("ortmodule_zero1", "unsupported", "no kernel for | or `x`,\n<b> on two lines"),
    ]


def save(folder: Path, records: list[Record], stem: str = "bert-tiny-cpux2") -> Path:
    path = folder / "results" / f"{stem}.csv"
    csv_files.write_records(path, records)
    return path


def rendered(folder: Path, records: list[Record], figure: str = "speedup") -> Path:
    """One figure of a report about these records alone."""
    save(folder, records)
    render_comparisons(folder / "results", folder / "reports")
    return folder / "reports" / f"{figure}.svg"


def page_of(records: list[Record]) -> str:
    return render_comparison(ReportedComparison(stem="x", rows=csv_files.table_of_records(records)))


def printed(records: list[Record]) -> str:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(render_terminal(ReportedComparison(stem="x", rows=csv_files.table_of_records(records))))
    return capture.get()


def svg_texts(path: Path) -> list[str]:
    """Every text of the picture, in order."""
    root = ElementTree.parse(path).getroot()
    return ["".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")]
