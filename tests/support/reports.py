"""Records with known reports, and what was made of them."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from rich.console import Console

from bench.report.build import render_report
from bench.report.content.collection import ReportedComparison
from bench.report.pages.comparison import comparison_blocks, render_terminal
from bench.report.render.markdown import render_markdown
from bench.results.machines import FILE
from bench.results.records import Record
from tests.support.factories import comparison, failed, phase
from tests.support.result_files import table_of_records, write_records

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
    write_records(path, records)
    return path


def make_machine(folder: Path, name: str = "a machine") -> Path:
    """The folder, said to be a machine's."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps({"name": name, "identity": {}}), encoding="utf-8")
    return folder


def rendered(folder: Path, records: list[Record], figure: str = "speedup") -> Path:
    """One figure of a report about these records alone."""
    save(folder, records)
    render_report(folder / "results", folder / "reports")
    return folder / "reports" / f"{figure}.svg"


def section_of(page: str, anchor: str) -> str:
    """The section of a comparison on a page in Markdown."""
    return page.split(f'<a id="{anchor}"></a>\n')[1].split("</details>")[0]


def render_comparison(comparison: ReportedComparison) -> str:
    """The section of a comparison in Markdown, without its heading."""
    return render_markdown(comparison_blocks(comparison))


def page_of(records: list[Record]) -> str:
    return render_comparison(ReportedComparison(stem="x", rows=table_of_records(records)))


def printed(records: list[Record]) -> str:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(render_terminal(ReportedComparison(stem="x", rows=table_of_records(records))))
    return capture.get()


def svg_texts(path: Path) -> list[str]:
    """Every text of the picture, in order."""
    root = ElementTree.parse(path).getroot()
    return ["".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")]
