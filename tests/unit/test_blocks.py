"""Blocks in each format: foreign text is shown as it is, and what belongs together stays together."""

import html
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.report.content.blocks import (
    Block,
    Bold,
    Bullets,
    Code,
    Column,
    Folded,
    Heading,
    Inline,
    Link,
    Paragraph,
    Picture,
    Small,
    plain,
    table,
)
from bench.report.render.html import render_html
from bench.report.render.markdown import render_markdown

FOREIGN = "<b>a|b</b> `x` [y](z) *w*\n_v_"

COLUMNS = [
    Column[tuple[str, float | None]]("name", lambda row: row[0], is_text=True),
    Column[tuple[str, float | None]]("ratio", lambda row: [f"{row[1]}", Small("[1, 2]")]),
]


def page_in_html(*blocks: Block, folder: Path = Path()) -> str:
    return render_html("title", render_markdown(blocks), folder)


def test_a_table_in_markdown_aligns_numbers_and_keeps_a_cell_on_one_line() -> None:
    rows = table([("a|b", 1.5), ("c", None)], COLUMNS)
    lines = render_markdown([rows]).splitlines()
    assert lines == ["| name | ratio |", "| --- | ---: |", "| a\\|b | 1.5 [1, 2] |", "| c | None [1, 2] |"]
    assert '<td style="text-align:right">1.5 [1, 2]</td>' in page_in_html(rows)


@pytest.mark.parametrize("make", [Bold, Code, Small, lambda words: Link(words, "a b.md#c"), str])
def test_foreign_words_are_harmless_in_every_part(make: Callable[[str], Inline]) -> None:
    blocks: list[Block] = [Paragraph(["before ", make(FOREIGN), " behind"]), Bullets([make(FOREIGN)])]
    page = page_in_html(*blocks)
    assert "<b>" not in page
    assert "&lt;b&gt;a|b&lt;/b&gt;" in page
    text = render_markdown(blocks)
    assert text.count("\n") == 3  # a paragraph and an item, each with an empty line
    if make is not Code:  # inside a code span nothing is interpreted
        assert "<b>" not in text
        assert "\\[y](" in text or "[y\\](" in text


def test_folded_parts_have_an_anchor() -> None:
    part = [Folded("All <14>", [Paragraph("in it")], "all", is_section=True)]
    folded = "<details><summary><b>All &lt;14&gt;</b></summary>\n"
    assert render_markdown(part).startswith(f'<a id="all"></a>\n\n{folded}\nin it\n')
    assert f'<p><a id="all"></a></p>\n{folded}<p>in it</p>' in page_in_html(*part)


def test_pictures_are_files_in_markdown_and_lie_inside_the_page_in_html(tmp_path: Path) -> None:
    path = tmp_path / "a b.svg"
    path.write_text("<svg><script>alert(1)</script></svg>", encoding="utf-8")
    picture = Picture(path, "speed <1>")
    assert render_markdown([picture]) == "![speed &lt;1&gt;](a%20b.svg)\n"
    page = page_in_html(picture, folder=tmp_path)
    assert "data:image/svg+xml;base64," in page
    assert "alert(1)" not in page
    assert 'alt="speed &lt;1&gt;"' in page


def test_headings_numbers_and_details() -> None:
    blocks: list[Block] = [
        Heading("Title", 1),
        Bullets(["one", ["two", Bold("!")]], is_numbered=True),
        Folded("more", [Heading("inside", 3)]),
    ]
    assert render_markdown(blocks).splitlines()[:4] == ["# Title", "", "1. one", "2. two**!**"]
    assert "<details><summary>more</summary>\n<h3>inside</h3>" in page_in_html(*blocks)


def test_plain_words_keep_a_gap_before_small_ones() -> None:
    assert plain(["1.2", Small("[1, 2]"), Link(" x", "y")]) == "1.2 [1, 2] x"
    assert html.unescape(render_markdown([Paragraph(["a ", "b"])])) == "a b\n"
