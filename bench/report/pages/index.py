"""The page over all machines: the answer of each."""

from collections.abc import Iterable, Sequence

from bench.report.content.answer import ABOUT_ANSWERS, MEMORY, OVER, QUESTION, SettingAnswer
from bench.report.content.blocks import (
    Block,
    Bullets,
    Heading,
    Inline,
    Link,
    Paragraph,
    Picture,
    Text,
    table_of_texts,
    with_code,
)


def index_page(
    machines: Iterable[tuple[str, str, SettingAnswer | None]],
    pictures: Sequence[Picture],
    further_pages: Sequence[Link],
) -> list[Block]:
    """For each backend a table with a row for each kind of machine, CPUs first.

    Of each machine its folder, name and first answer, if it has one; of a kind's hosts that on which most was
    measured has the row.
    """
    tables: dict[str, list[list[Text]]] = {}
    without: list[Text] = []
    hosts: dict[str, list[Inline]] = {}  # links to those of each kind
    for folder, name, answer in sorted(machines, key=_place):
        page = f"{folder}/index.md"
        if answer is None:
            without.append(Link(name, page))
        elif links := hosts.get(answer.setting):
            links += [", ", Link("another host", page)]
        else:
            hosts[answer.setting] = [Link(answer.setting, page)]
            for backend in answer.backends:
                tables.setdefault(backend.subject, []).append([hosts[answer.setting], *backend.cells])
    headers = ["kind of machine", *OVER, MEMORY]
    blocks: list[Block] = [Heading(QUESTION, 1), *pictures, Paragraph(ABOUT_ANSWERS)]
    for subject, rows in sorted(tables.items()):
        blocks += [Heading(subject), table_of_texts(headers, rows, text_columns=headers)]
    if without:
        blocks += [Paragraph("Nothing that answers this was measured on:"), Bullets(without)]
    rebuilt = Paragraph(with_code("Rebuilt from `results/` alone by `make report`."))
    return [*blocks, *map(Paragraph, further_pages), rebuilt]


def _place(machine: tuple[str, str, SettingAnswer | None]) -> tuple[bool, str, int, str]:
    _, name, answer = machine
    measured = sum(map(len, answer.backends[0].outcomes)) if answer else 0
    return name[:1].isdigit(), answer.setting if answer else name, -measured, name
