"""reports/claims.md: the verdict on each published claim, and what it rests on."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from bench.report.content.blocks import (
    Block,
    Bullets,
    Column,
    Folded,
    Heading,
    Paragraph,
    table,
    text_column,
    with_code,
)
from bench.report.content.study_pages import ByMachine, StudyPage, WrittenPage
from bench.report.render.markdown import render_markdown
from bench.results.atomic import write_atomically
from bench.studies.claims.judge import JudgedClaim, evidence_lines, judge_claims, verdict_words

ABOUT = (
    "A verdict speaks of the comparisons that are named below the table and of nothing else: miniatures on a "
    "CPU say little of large models on GPUs."
)

COLUMNS: list[Column[JudgedClaim]] = [
    text_column("claim", lambda finding: finding.claim.claim),
    text_column("by", lambda finding: finding.claim.source),
    text_column("verdict", verdict_words),
]


def claims_page(findings: Sequence[JudgedClaim]) -> list[Block]:
    """Verdicts in a table; below it what each rests on, folded: it may be dozens of comparisons."""
    blocks: list[Block] = [
        Heading("What others claim, tested", 1),
        Paragraph(ABOUT),
        table(findings, COLUMNS),
    ]
    for finding in findings:
        commands = [f"made by: {'; '.join(finding.commands)}"] if finding.commands else []
        blocks.append(Folded(finding.claim.claim, [Bullets([*evidence_lines(finding), *commands])]))
    return [*blocks, Paragraph(with_code("Rebuilt from `results/` alone by `make report`."))]


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
