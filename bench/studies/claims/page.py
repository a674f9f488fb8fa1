"""The page of published claims: the verdict on each, and what it rests on."""

from collections.abc import Sequence

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
from bench.studies.claims.judge import JudgedClaim, evidence_lines, verdict_words

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
