"""LaTeX: foreign text made harmless, and tables for the package booktabs."""

from collections.abc import Sequence

from bench.report.content.blocks import Table, plain
from bench.report.words.formatting import one_line

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{EN DASH}": "--",
    "\N{MINUS SIGN}": "$-$",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
}
"""What LaTeX would take for a command, and signs that fonts of old compilers lack."""


def escaped(text: str) -> str:
    """Foreign text for LaTeX: shown as it is, never interpreted."""
    return "".join(_SPECIAL.get(sign, sign) for sign in one_line(text))


def render_table(table: Table, caption: str) -> str:
    """A whole table with its caption below it."""
    alignment = "".join("l" if column.is_text else "r" for column in table.columns)
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \begin{{tabular}}{{{alignment}}}",
            r"    \toprule",
            _line([column.header for column in table.columns]),
            r"    \midrule",
            *(_line([plain(cell.text) for cell in row]) for row in table.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            rf"  \caption{{{escaped(caption)}}}",
            r"\end{table}",
            "",
        ]
    )


def _line(cells: Sequence[str]) -> str:
    return f"    {' & '.join(map(_cell, cells))} " + r"\\"


def _cell(text: str) -> str:
    """A cell; one that begins with a bracket would be taken for an option of the line break before it."""
    words = escaped(text)
    return f"{{}}{words}" if words.startswith(("[", "*")) else words
