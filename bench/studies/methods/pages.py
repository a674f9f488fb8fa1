"""Writes methods.md beside a machine's page, and a figure for each model."""

from itertools import chain
from pathlib import Path

from bench.report.content.study_pages import ByMachine, StudyPage, WrittenPage
from bench.report.render.markdown import render_markdown
from bench.results.atomic import write_atomically
from bench.studies.methods.page import methods_page


def _write(by_machine: ByMachine, out_dir: Path) -> WrittenPage:
    from bench.studies.methods.figure import write_methods_figures  # matplotlib: 1 s

    comparisons = list(chain.from_iterable(by_machine.values()))
    page = out_dir / "methods.md"
    write_atomically(page, render_markdown(methods_page(comparisons)))
    return WrittenPage(files=[page, *write_methods_figures(comparisons, out_dir)])


PAGE = StudyPage(
    about="What each method of training saves, and what it costs", folders=("methods",), write=_write
)
