"""Writes support.md and support.csv beside a machine's page."""

from itertools import chain
from pathlib import Path

from bench.report.content.backend_columns import IN_SUMMARY, rows_of
from bench.report.content.study_pages import ByMachine, StudyPage, WrittenPage
from bench.report.render.csv import render_csv
from bench.report.render.markdown import render_markdown
from bench.results.atomic import write_atomically
from bench.studies.matrix.page import support_page


def _write(by_machine: ByMachine, out_dir: Path) -> WrittenPage:
    comparisons = list(chain.from_iterable(by_machine.values()))
    page, table = out_dir / "support.md", out_dir / "support.csv"
    write_atomically(page, render_markdown(support_page(comparisons)))
    write_atomically(table, render_csv(rows_of(comparisons), IN_SUMMARY))
    return WrittenPage(files=[page, table])


PAGE = StudyPage(about="Which backend trains which model", folders=("matrix",), write=_write)
