"""Blocks in each format: foreign text is shown as it is, and what belongs together stays together."""

import html
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.report.content.blocks import (
    Block,
    Bold,
    Box,
    Bullets,
    Code,
    Column,
    Folded,
    Heading,
    Inline,
    Link,
    Paragraph,
    Picture,
    Pictures,
    Small,
    plain,
    table,
)
from bench.report.render.html import render_html
from bench.report.render.markdown import render_markdown

FOREIGN = "<b>a|b</b> `x` [y](z) *w*\n_v_"

COLUMNS = [
    Column[tuple[str, float | None]]("name", lambda row: row[0], is_text=True),
    Column[tuple[str, float | None]](
        "ratio",
        lambda row: [f"{row[1]}", Small("[1, 2]")],
        sort_key=lambda row: row[1],
        look=lambda row: "faster" if row[1] else "",
    ),
]


def page_in_html(*blocks: Block) -> str:
    return render_html("title", "about", blocks)


def test_a_table_in_markdown_aligns_numbers_and_keeps_a_cell_on_one_line() -> None:
    lines = render_markdown([table([("a|b", 1.5), ("c", None)], COLUMNS)]).splitlines()
    assert lines == ["| name | ratio |", "| --- | ---: |", "| a\\|b | 1.5 [1, 2] |", "| c | None [1, 2] |"]


def test_a_sortable_table_has_keys_buttons_and_looks_and_a_missing_key_is_blank() -> None:
    page = page_in_html(
        table([("a", 1.5), ("c", None)], COLUMNS, label="rows", anchor="all", is_sortable=True)
    )
    assert '<th scope="col" aria-sort="none"><button type="button">name</button></th>' in page
    assert '<td class="number faster" data-key="1.5">1.5<br><small>[1, 2]</small></td>' in page
    assert '<td class="number" data-key="">None' in page
    assert 'aria-label="rows, scrolls sideways" id="all"' in page


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
    part = [Folded("All <14>", [Paragraph("in it", is_faint=True)], "all", is_section=True)]
    assert render_markdown(part).startswith(
        '<a id="all"></a>\n\n<details><summary><b>All &lt;14&gt;</b></summary>\n\nin it\n'
    )
    assert '<details id="all"><summary><h2>All &lt;14&gt;</h2></summary>' in page_in_html(*part)


def test_pictures_are_files_in_markdown_and_lie_inside_the_page_in_html(tmp_path: Path) -> None:
    path = tmp_path / "a b.svg"
    path.write_text("<svg><script>alert(1)</script></svg>", encoding="utf-8")
    picture = Picture(path, "speed <1>")
    assert render_markdown([Pictures([picture])]) == "![speed &lt;1&gt;](a%20b.svg)\n"
    page = page_in_html(Box([picture], label="first", look="first"))
    assert "data:image/svg+xml;base64," in page
    assert "alert(1)" not in page
    assert 'alt="speed &lt;1&gt;; the tables hold its numbers"' in page


def test_headings_numbers_and_details() -> None:
    blocks: list[Block] = [
        Heading("Title", 1),
        Bullets(["one", ["two", Bold("!")]], is_numbered=True),
        Folded("more", [Heading("inside", 3)]),
    ]
    assert render_markdown(blocks).splitlines()[:4] == ["# Title", "", "1. one", "2. two**!**"]
    assert "<ol><li>one</li><li>two<strong>!</strong></li></ol>" in page_in_html(*blocks)
    assert "<details><summary>more</summary>" in render_markdown(blocks)


def test_plain_words_keep_a_gap_before_small_ones() -> None:
    assert plain(["1.2", Small("[1, 2]"), Link(" x", "y")]) == "1.2 [1, 2] x"
    assert html.unescape(render_markdown([Paragraph(["a ", "b"])])) == "a b\n"
