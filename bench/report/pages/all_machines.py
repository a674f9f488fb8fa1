"""reports/index.md: the answer of every machine, a line each, which leads to the machine's own page."""

from collections.abc import Sequence

from bench.report.content.answer import QUESTION, AnswerWords
from bench.report.content.blocks import Block, Bullets, Heading, Link, Paragraph, Text, with_code


def machine_line(folder: str, name: str, answers: Sequence[AnswerWords]) -> Text:
    """The entry of a machine in the list, by the first of its answers, if it has any."""
    answer = "nothing that answers this was measured here."
    if answers:
        name, answer = answers[0].setting, answers[0].short
    return [Link(name, f"{folder}/index.md"), f": {answer}"]


def all_machines_page(entries: Sequence[Text], *, has_predictions: bool) -> list[Block]:
    """The page over all machines."""
    spread = Link("The same comparison on several machines, and how far these lie apart", "machines.md")
    scale = Link("Many GPUs: what is predicted, and how far predictions were off", "scale.md")
    return [
        Heading(QUESTION, 1),
        Bullets(entries),
        Paragraph(spread),
        *([Paragraph(scale)] if has_predictions else []),
        Paragraph(
            with_code(
                "Rebuilt from `results/` alone by `make report`, which also makes a page with sortable "
                "tables."
            )
        ),
    ]
