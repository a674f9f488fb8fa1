"""Writes reports/claims.md."""

from itertools import chain
from pathlib import Path

from bench.report.content.study_pages import ByMachine, StudyPage, WrittenPage
from bench.report.render.markdown import render_markdown
from bench.results.atomic import write_atomically
from bench.studies.claims.judge import judge_claims
from bench.studies.claims.page import claims_page


def _write(by_machine: ByMachine, out_dir: Path) -> WrittenPage:
    page = out_dir / "claims.md"
    judged = judge_claims(list(chain.from_iterable(by_machine.values())))
    write_atomically(page, render_markdown(claims_page(judged)))
    return WrittenPage(files=[page])


PAGE = StudyPage(
    about="What others claim, tested",
    folders=("reproduce", "bench", "methods", "claims"),
    over_machines=True,
    write=_write,
)
